"""What a run may change of a reviewed config."""

RELEASE = ("compute", "cluster.kind", "cluster.workers", "cluster.threads_per_worker")
"""Keys that a release may override: they change how it is computed, never a bit of it and never where.

An address is not among them: whoever starts a run from a form could send the records to a scheduler of their own.
"""

DRY_RUN = ("release", "data", "query", "privacy", "mechanism", "compute", "cluster")
"""Keys that a dry run may override: all but the places of output, the ledger among them."""
