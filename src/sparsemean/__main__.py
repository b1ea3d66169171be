"""``python -m sparsemean`` is the command."""

from sparsemean._cli import main

main()
