"""An estimate as one page: words, a table and linked plots in a file that needs nothing but itself."""
