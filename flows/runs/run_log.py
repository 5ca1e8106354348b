"""Warnings of plain functions, which know no Prefect, on the page of the run that called them."""

import logging
from contextlib import suppress

from prefect import get_run_logger


class _RunPage(logging.Handler):
    """Writes a record to the log of the run of this thread, where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        # Outside of a run there is no page; and one that cannot be written to must not fail the run that it tells of.
        with suppress(Exception):
            get_run_logger().log(record.levelno, record.getMessage())


def show(name: str) -> None:
    """Show the warnings of a logger on the pages of runs."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _RunPage) for handler in logger.handlers):
        logger.addHandler(_RunPage(logging.WARNING))
