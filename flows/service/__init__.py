"""Service: a Prefect server with a login, a schedule and runners; or registered deployments and workers of a team."""
