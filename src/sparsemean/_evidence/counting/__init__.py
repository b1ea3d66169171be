"""From rows to counts of signs and ranks, wherever the rows lie; sketches of them, merged and stored."""
