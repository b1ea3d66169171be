"""One compared method per file; each offers one `Baseline` in its ``__all__``."""
