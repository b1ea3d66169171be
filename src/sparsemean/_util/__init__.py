"""Records that rooms hand to each other, checks of arguments, and files that are never half-written."""
