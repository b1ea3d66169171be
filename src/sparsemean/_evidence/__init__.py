"""Evidence: what data say of hypotheses if so many rows are bad, one file a kind, and intervals by inversion."""
