"""From files of records to the Zarr array that releases read; :mod:`blockveil.pipeline.ingest.run` has its order."""
