"""Sections as a page that loads nothing: no network, no script, and a policy that forbids both."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from blockveil.pipeline.base.printable import printable
from blockveil.pipeline.report.papers import DARK, LIGHT
from blockveil.pipeline.report.report_sections import Link, ReportSection

_TEXT_COLUMNS = {
    "leading directions", "feature", "column", "entry", "mechanism", "parameters", "what", "row", "pair", "night",
    "release", "changed since the night before", "declared range", "nights left", "why",
    "promise", "values (SHA-256)", "ledger", "approval", "state",
    "level", "asked", "answer", "source", "part", "what decides it",
}  # fmt: skip


@cache
def _template() -> Any:
    """The page, whose policy allows its own style and pictures alone."""
    from jinja2 import Environment, FileSystemLoader  # takes a while to import

    folder = Path(__file__).with_name("templates")
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, finalize=_shown)
    style = (folder / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    environment.globals |= {
        "style": style,
        "policy": policy,
        "text_columns": _TEXT_COLUMNS,
        "light": LIGHT,
        "dark": DARK,
    }
    return environment.get_template("page.html").module


def _shown(value: Any) -> Any:
    """Markup of the template as it is, and any text without what would steer the machine of whoever reads it."""
    return value if hasattr(value, "__html__") else printable(str(value))


def document(sections: Sequence[ReportSection], back: Link | None = None) -> str:
    """Whole page: its heading first, that is its title and a line under it; below a link where one is given."""
    return str(_template().page(sections[0], sections[1:], back))


def refilled(page: str, sections: Sequence[ReportSection]) -> str:
    """The same page with other sections in the places of those that change; text of a release cannot look like one."""
    for each in sections:
        before, marker, rest = page.partition(f"<!--{each.key}-->")
        if marker:
            page = f"{before}{_template().sections([each], 2)}{rest.partition(f'<!--end of {each.key}-->')[2]}"
    return page


def anchor(name: str) -> str:
    """A name as the part of an address that follows ``#``."""
    return quote(name, safe="/")
