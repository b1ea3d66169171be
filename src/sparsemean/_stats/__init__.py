"""Mathematics on arrays: nulls, selection, intervals, paths, locations, scores of rows. No files, no threads."""
