"""Parts of a page that loads nothing: no network, no script, and a policy that forbids both."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from blockveil.pipeline.base.printable import as_html
from blockveil.pipeline.report.facts import Rows
from blockveil.pipeline.report.pictures import DARK, LIGHT, Picture

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --faint: #595959; --paper: #fff; --line: #8884; --soft: #8881; --warm: #d55e00; --cool: #0072b2; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --faint: #a6a6a6; --paper: #161616; --warm: #e69f00; --cool: #56b4e9; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; margin-top: 1.5rem; }
.under { color: var(--faint); margin-top: 0; } .exact, figcaption { color: var(--faint); font-size: .9rem; }
.promise { border-left: 4px solid var(--cool); background: var(--soft); padding: .8rem 1rem; }
.promise p { margin: .3rem 0; }
.warning { border-left: 4px solid var(--warm); background: var(--soft); padding: .8rem 1rem; }
.found { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td:first-child { min-width: 7rem; overflow-wrap: break-word; }
@media screen and (min-width: 48rem) { td.n { white-space: nowrap; } }
@media screen and (max-width: 48rem) { table { display: block; overflow-x: auto; } td.n { white-space: nowrap; } td:not(.n, :first-child) { min-width: 6.5rem; } }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
ol.limits li { margin: .35rem 0; }
details { border-top: 1px solid var(--line); } details > summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
details > :last-child { margin-bottom: 1.2rem; }
a { color: var(--cool); }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; }
@page { size: A4; margin: 16mm; }
@media print {
  body { max-width: none; margin: 0; padding: 0; font-size: 10pt; line-height: 1.35; } h2 { margin-top: 1.2rem; }
  .promise, .warning { padding: .4rem .8rem; } figure { margin: .6rem 0; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  h2, h3, summary { break-after: avoid; } figure, tr, li, pre, .promise, .warning { break-inside: avoid; } img { max-height: 82mm; }
  tr:nth-child(-n+2) { break-after: avoid; } tr:nth-last-child(-n+2) { break-before: avoid; }
  table { font-size: 8.5pt; } th, td { padding: .2rem .4rem; } td.n { white-space: nowrap; } td:not(.n) { min-width: 7.5rem; }
  details::details-content { content-visibility: visible; block-size: auto; } summary { list-style: none; }
}
"""

_TEXT_COLUMNS = {
    "leading directions", "feature", "column", "entry", "mechanism", "parameters", "what", "row", "pair", "night",
    "release", "changed since the night before", "declared range", "nights left", "why",
    "promise", "values (SHA-256)", "ledger", "approval", "state",
    "level", "asked", "answer", "source", "part", "what decides it",
}  # fmt: skip


def document(title: str, parts: Sequence[str]) -> str:
    """A page of parts, with a policy that allows its own style and pictures alone."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">'
        f"<title>{as_html(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def heading(title: str, under: str = "") -> str:
    """Heading of a page, and a line under it."""
    return f"<h1>{as_html(title)}</h1>" + (f'<p class="under">{as_html(under)}</p>' if under else "")


def section(title: str, *parts: str) -> str:
    """A heading and what belongs to it, as markup."""
    return f"<h2>{as_html(title)}</h2>" + "".join(parts)


def sourced(source: str, *parts: str) -> str:
    """Parts whose numbers come from a source, which the page names; parts are markup."""
    return f'<div data-source="{as_html(source)}">{"".join(parts)}</div>'


def sourced_section(source: str, title: str, *parts: str) -> str:
    """A heading and what belongs to it, whose numbers come from a source that stands below them; parts are markup."""
    return sourced(source, section(title, *parts), paragraph(f"Source: {source}", "under"))


def folded(title: str, *parts: str) -> str:
    """What is shown when its title is opened; parts are markup."""
    return f"<details><summary>{as_html(title)}</summary>{''.join(parts)}</details>"


def place(name: str, markup: str) -> str:
    """Markup in a place of the page that :func:`refilled` finds; text of a release cannot look like one."""
    return f"<!--{name}-->{markup}<!--end of {name}-->"


def refilled(page: str, places: Mapping[str, str]) -> str:
    """The same page with other markup in its places.

    Parameters
    ----------
    page
        A page that was made here.
    places
        Markup by the name of its place.
    """
    for name, markup in places.items():
        before, found, rest = page.partition(f"<!--{name}-->")
        if found:
            page = f"{before}{place(name, markup)}{rest.partition(f'<!--end of {name}-->')[2]}"
    return page


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of text, of a class of the style where one is named."""
    return f'<p class="{kind}">{as_html(text)}</p>' if kind else f"<p>{as_html(text)}</p>"


def promise(*sentences: str, more: str = "") -> str:
    """What is promised, set apart; ``more`` is markup."""
    return '<div class="promise">' + "".join(paragraph(sentence) for sentence in sentences) + f"{more}</div>"


def warning(sentence: str) -> str:
    """A warning, set apart."""
    return paragraph(sentence, "warning")


def figure(picture: Picture, caption: str = "") -> str:
    """A picture for light and dark paper, with its text; it is printed as for light paper."""
    under = f"<figcaption>{as_html(caption)}</figcaption>" if caption else ""
    dark = data_uri(picture.draw(DARK))
    return (
        f'<figure><picture><source media="screen and (prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{data_uri(picture.draw(LIGHT))}" alt="{as_html(picture.text)}"></picture>{under}</figure>'
    )


def data_uri(svg: str) -> str:
    """A picture as an address that holds it."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def link(address: str, text: str, own: str = "") -> str:
    """A link to another page of the same site, which others may lead to where it has a name of its own."""
    named = f' id="{as_html(own)}"' if own else ""
    return f'<a{named} href="{as_html(address)}">{as_html(text)}</a>'


def anchor(name: str) -> str:
    """A name as the part of an address that follows ``#``."""
    return quote(name, safe="/")


def pairs(rows: Rows) -> str:
    """A table of two columns."""
    cells = "".join(f'<tr><th scope="row">{as_html(what)}</th><td>{as_html(value)}</td></tr>' for what, value in rows)
    return f"<table>{cells}</table>"


def sourced_lines(rows: Sequence[tuple[str, str, str]]) -> str:
    """A table of what is told, its value, and the source of that."""
    cells = "".join(
        f'<tr data-source="{as_html(source)}"><th scope="row">{as_html(what)}</th><td>{as_html(value)}</td>'
        f"<td>{as_html(source)}</td></tr>"
        for what, value, source in rows
    )
    return f"<table>{cells}</table>"


def grid(rows: Sequence[dict[str, str]]) -> str:
    """A table of rows."""
    return table([{name: as_html(value) for name, value in row.items()} for row in rows])


def table(rows: Sequence[dict[str, str]]) -> str:
    """A table of rows whose cells are markup already; its heads are text."""
    names = list(rows[0])
    head = "".join(f'<th scope="col"{_numeric(name)}>{as_html(name)}</th>' for name in names)
    body = "".join(
        f"<tr{_source(row)}>" + "".join(f"<td{_numeric(name)}>{row[name]}</td>" for name in names) + "</tr>"
        for row in rows
    )
    # On paper a head is repeated on each sheet that the table reaches.
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _source(row: dict[str, str]) -> str:
    return f' data-source="{row["source"]}"' if "source" in row else ""


def _numeric(name: str) -> str:
    return "" if name in _TEXT_COLUMNS else ' class="n"'
