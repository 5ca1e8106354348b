"""Prefect flows and tasks, the Dask cluster, and the command line around the plain functions of the pipeline."""

from flows.processor import choose_kernels

choose_kernels()  # before anything below imports NumPy
