"""From files of records to the Zarr array that releases read; :mod:`.ingest_run` has its order."""
