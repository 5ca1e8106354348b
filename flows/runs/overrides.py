"""What a run may change of a reviewed config."""

RELEASE = ("compute", "cluster.kind", "cluster.workers", "cluster.threads_per_worker", "cluster.always")
"""Keys that a release on the command line may override: they change how it is computed, never a bit of it and never
where.

An address is not among them: whoever starts a run from a form could send the records to a scheduler of their own.
"""

DRY_RUN = ("release", "data", "query", "privacy", "mechanism", "compute", "cluster")
"""Keys that a dry run of this code may override: all but the places of output, the ledger among them."""

FORM_OF_RELEASE = ("compute", "cluster.workers", "cluster.threads_per_worker")
"""Keys that a release may override that a server has asked for: sizes alone, so that it runs where it was reviewed."""

FORM_OF_DRY_RUN = (*FORM_OF_RELEASE, "privacy")
"""Keys that a dry run may override that a server has asked for: none that could name a file or an address."""


def may_be_asked(key: object, release: bool) -> bool:
    """Whether the form of a release, or of a dry run, may override a key."""
    allowed = FORM_OF_RELEASE if release else FORM_OF_DRY_RUN
    return isinstance(key, str) and any(key == prefix or key.startswith(f"{prefix}.") for prefix in allowed)


def of_form_in_words() -> str:
    """What a form may override, for a person."""
    return f"{', '.join(FORM_OF_RELEASE)}; a dry run {FORM_OF_DRY_RUN[-1]} too"
