"""Cluster: a Dask cluster for one run, over TLS, whose workers were checked before they get work."""
