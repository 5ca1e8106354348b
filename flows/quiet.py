"""Keeps a terminal readable: library logs off, warnings off, unless a person asks for them."""

import logging
import os
import warnings


def quieten(debug: bool) -> None:
    """Set log levels; call before Prefect is imported."""
    if debug:
        return
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
