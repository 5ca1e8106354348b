"""What a run may change of a reviewed config."""

from blockveil.pipeline.config import ReleaseConfig

RELEASE = ("compute", "cluster.kind", "cluster.workers", "cluster.threads_per_worker", "cluster.always_start_workers")
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


NOT_RAISED = ("compute.memory_gib", "cluster.workers", "cluster.threads_per_worker")
"""Sizes that a form may lower and never raise: a slip of the finger would start processes until the machine is full."""


def raised(reviewed: ReleaseConfig, asked: ReleaseConfig) -> tuple[str, float, float] | None:
    """The first size that was asked above the reviewed one: its key, what was asked, and what is reviewed."""
    for key in NOT_RAISED:
        section, _, name = key.partition(".")
        size, most = (getattr(getattr(config, section), name, 0) for config in (asked, reviewed))
        if size > most:
            return key, size, most
    return None


def may_be_asked(key: object, release: bool) -> bool:
    """Whether the form of a release, or of a dry run, may override a key."""
    prefixes = FORM_OF_RELEASE if release else FORM_OF_DRY_RUN
    return isinstance(key, str) and any(key == prefix or key.startswith(f"{prefix}.") for prefix in prefixes)


def of_form_in_words() -> str:
    """What a form may override, for a person."""
    return f"{', '.join(FORM_OF_RELEASE)}; a dry run {FORM_OF_DRY_RUN[-1]} too"
