"""A source and a partition become evidence."""
