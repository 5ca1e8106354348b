"""Prefect flows and tasks, the Dask cluster, and the command line around the plain functions of the pipeline.

Prefect and Dask read their environment when they are imported, and Prefect reports its first use to its makers then. So
the settings come with the package itself: no module of it can be imported before them.
"""

from blockveil.flows.base import settings as settings
