"""The refusal of a query that may not read an ingest's source; it needs no parser of queries."""

from __future__ import annotations

_RULE = "A query selects, renames, filters and computes within one row of one table"


class QueryRefused(Exception):
    """A query is not accepted."""

    def __init__(self, problem: str, rule: str = _RULE, remedy: str = "Take it out of the query") -> None:
        super().__init__(problem, rule, remedy)
        self.problem, self.rule, self.remedy = problem, rule, remedy
