"""The report as one self-contained HTML page: no network, no script, and a policy that forbids both."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from blockveil.pipeline.base.printable import as_html
from blockveil.pipeline.report import after, promises
from blockveil.pipeline.report import facts as found
from blockveil.pipeline.report.facts import Facts, Rows
from blockveil.pipeline.report.loading import loading
from blockveil.pipeline.report.pictures import DARK, LIGHT, Picture, heat_map, spectrum

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --line: #8884; --soft: #8881; --warm: #d55e00; --cool: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #161616; --warm: #e69f00; --cool: #56b4e9; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.promise { border-left: 4px solid var(--cool); background: var(--soft); padding: .8rem 1rem; }
.promise p { margin: .3rem 0; }
.warning { border-left: 4px solid var(--warm); background: var(--soft); padding: .8rem 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; }
@media print { body { max-width: none; } h2, figure { break-inside: avoid; } }
"""

_TEXT_COLUMNS = {"leading directions", "feature", "column", "entry", "mechanism", "parameters", "what", "row"}


def html(facts: Facts, budget: Rows, folder: str) -> str:
    """Whole page; ``folder`` is the release's folder name, for the loading examples; an empty budget is left out."""
    parts = [
        heading(facts.title),
        *([warning(found.finding(facts))] if facts.nothing else []),
        promise(*promises.promises(facts)),
        *([warning(said)] if (said := promises.too_large(facts)) is not None else []),
        *([warning(found.UNRELIABLE)] if not facts.reliable else []),
        *([warning(found.IN_CLEAR)] if facts.in_clear else []),
        "<h2>Noise and signal</h2>" + pairs([*found.error_lines(facts), found.spectrum_line(facts)]),
        figure(heat_map(facts)),
        *_strongest(facts),
        figure(spectrum(facts)),
        "<h2>Estimates and their noise</h2><p>Noise is given as a standard deviation, in the unit of the estimate. "
        f"{as_html(found.left_out(facts))}</p>",
        grid(found.error_table(facts)),
        *_after(facts.attributes.get("error") or {}),
        "<h2>Guarantee</h2>" + pairs(found.guarantee_rows(facts)),
        *_comparison(facts),
        *(["<h2>Budget</h2><p>As it stood when this page was written.</p>" + pairs(budget)] if budget else []),
        "<h2>Origin of this release</h2>" + pairs(found.origin_rows(facts)),
        "<h2>How to load it</h2>"
        + "".join(f"<p>{as_html(name)}</p><pre>{as_html(code)}</pre>" for name, code in loading(facts, folder)),
        f"<h2>What is not protected</h2><p>{as_html(promises.not_protected(facts))} Whoever can read the raw records, the "
        "machines or the key store during a run is outside the guarantee. The full list is in docs/known-limits.md of "
        "the project.</p>",
    ]
    return document(facts.title, parts)


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


def heading(title: str) -> str:
    """Heading of a page."""
    return f"<h1>{as_html(title)}</h1>"


def promise(*sentences: str) -> str:
    """What is promised, set apart."""
    return '<div class="promise">' + "".join(f"<p>{as_html(sentence)}</p>" for sentence in sentences) + "</div>"


def warning(sentence: str) -> str:
    """A warning, set apart."""
    return f'<p class="warning">{as_html(sentence)}</p>'


def figure(picture: Picture) -> str:
    """A picture for light and dark paper, with its text."""
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{data_uri(picture.draw(DARK))}">'
        f'<img src="{data_uri(picture.draw(LIGHT))}" alt="{as_html(picture.text)}"></picture></figure>'
    )


def data_uri(svg: str) -> str:
    """A picture as an address that holds it."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def pairs(rows: Rows) -> str:
    """A table of two columns."""
    cells = "".join(f'<tr><th scope="row">{as_html(what)}</th><td>{as_html(value)}</td></tr>' for what, value in rows)
    return f"<table>{cells}</table>"


def grid(rows: Sequence[dict[str, str]]) -> str:
    """A table of rows."""
    names = list(rows[0])
    head = "".join(f'<th scope="col"{_numeric(name)}>{as_html(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td{_numeric(name)}>{as_html(row[name])}</td>" for name in names) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _numeric(name: str) -> str:
    return "" if name in _TEXT_COLUMNS else ' class="n"'


def _strongest(facts: Facts) -> list[str]:
    rows, left_out = found.strongest_table(facts), found.not_estimable(facts)
    strongest = ["<p>Strongest of the entries that stand out of the noise:</p>" + grid(rows)] if rows else []
    return [*strongest, f"<p>{as_html(left_out)}</p>"] if left_out else strongest


def _after(error: after.Error) -> list[str]:
    """Error before and after post-processing, and of leading subspaces, where the release tells."""
    sizes, subspaces = after.sizes(error), after.subspaces(error)
    if not sizes:
        return []
    parts = [f"<h2>Error before and after post-processing</h2><p>{as_html(after.explanation(error))}</p>" + grid(sizes)]
    of = error.get("subspace", {}).get("of", "")
    lost = "Squared sine distance of leading subspaces from the truth, at most their dimension; of the "
    parts += [f"<p>{as_html(lost + of)}.</p>" + grid(subspaces)] if subspaces else []
    return parts


def _comparison(facts: Facts) -> list[str]:
    """Why this mechanism was chosen, where it was chosen automatically."""
    rows = found.comparison_rows(facts)
    return [f"<h2>Mechanisms compared</h2>{grid(rows)}"] if rows else []
