"""Keeps a terminal readable: library logs and warnings stay off it, unless a person asks for them."""

import logging
import os
import warnings


def quieten(debug: bool) -> None:
    """Set log levels; call before Prefect is imported. A run's log lines still reach its Prefect server."""
    if debug:
        return
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
