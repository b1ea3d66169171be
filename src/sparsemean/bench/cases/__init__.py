"""One benchmark per file; a new file needs no entry anywhere.

Each offers ``rows(*, quick, repeat)``, which yields a `sparsemean.bench.Row` for every number as it is measured.
"""
