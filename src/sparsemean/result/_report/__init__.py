"""What is said about an estimate: words, guarantees, the page."""
