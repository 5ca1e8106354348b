"""Prefect flows and tasks, the Dask cluster, and the command line around the plain functions of the pipeline."""
