"""One plot per file; each returns matplotlib axes and accepts ``ax=``."""
