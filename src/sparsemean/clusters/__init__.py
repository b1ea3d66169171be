"""Work that is done elsewhere: computing dask's graphs on any scheduler, and the clusters to do it on."""
