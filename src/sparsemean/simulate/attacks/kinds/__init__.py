"""One attack per file; each offers one function in its ``__all__``."""
