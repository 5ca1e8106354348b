"""The report as one self-contained HTML page and as markdown for a run page. No network, no script."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape

from pipeline.report.facts import Facts, error_lines, error_table, number
from pipeline.report.pictures import heat_map, spectrum

Rows = Sequence[tuple[str, str]]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --line: #8884; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #161616; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.promise { border-left: 4px solid #0072b2; background: var(--soft); padding: .8rem 1rem; }
.warning { border-left: 4px solid #d55e00; background: var(--soft); padding: .8rem 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .85rem; }
"""


def html(facts: Facts, budget: Rows, folder: str) -> str:
    """Whole page; ``folder`` is the release's folder name, for the loading examples."""
    attributes = facts.attributes
    title = escape(f"{attributes['title']}, {attributes['logical_date']}")
    warning = (
        ""
        if attributes.get("reliable", True)
        else (
            '<p class="warning">The noisy count is close to zero. Mean and covariance are meaningless in this release.</p>'
        )
    )
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="promise">{escape(attributes["guarantee"]["sentence"])}</p>{warning}',
        "<h2>Noise and signal</h2>" + _pairs(error_lines(facts)),
        _figure(heat_map(facts), "Heat map of the released matrix"),
        _figure(spectrum(facts), "Spectrum of the released matrix beside the noise level"),
        "<h2>Estimates and their noise</h2><p>Noise is given as a standard deviation, in the unit of the estimate.</p>",
        _grid(error_table(facts)),
        "<h2>Guarantee</h2>" + _pairs(guarantee_rows(facts)),
        *_comparison(facts),
        "<h2>Budget</h2><p>As it stood when this page was written.</p>" + _pairs(budget),
        "<h2>Origin of this release</h2>" + _pairs(origin_rows(facts)),
        "<h2>How to load it</h2>"
        + "".join(f"<p>{name}</p><pre>{escape(code)}</pre>" for name, code in loading(facts, folder)),
        "<h2>What is not protected</h2><p>The privacy unit is a row: somebody with several rows is protected less. Whoever can read "
        "the raw records, the machines or the key store during a run is outside the guarantee. The full list is in "
        "docs/known-limits.md of the project.</p>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def markdown(facts: Facts, budget: Rows, path: str, report: str) -> str:
    """Report for a run page: tables and pictures as data, so that nothing is fetched."""
    attributes = facts.attributes
    picture = spectrum(facts)
    sections = [
        f"# {attributes['title']}, {attributes['logical_date']}",
        f"> {attributes['guarantee']['sentence']}",
        _markdown_pairs([*error_lines(facts), *budget]),
        f"![Heat map of the released matrix]({_data_uri(heat_map(facts))})",
        *([f"![Spectrum of the released matrix]({_data_uri(picture)})"] if picture else []),
        "## Guarantee\n\n" + _markdown_pairs(guarantee_rows(facts)),
        f"Release: `{path}`\n\nReport: `{report}`",
    ]
    return "\n\n".join(sections) + "\n"


def guarantee_rows(facts: Facts) -> list[tuple[str, str]]:
    """What an engineer checks."""
    promise, noise = facts.attributes["guarantee"], facts.attributes["mechanism"]
    exact = "exact" if noise["sensitivity_exact"] else "upper bound"
    loss = promise["loss"]
    parts = [f"mu {loss['mu']:.8g}"] if loss["mu"] else []
    parts += [f"pure epsilon {loss['epsilon']:.8g}"] if loss["epsilon"] else []
    return [
        ("Guarantee", f"epsilon {promise['epsilon']:g} at delta {promise['delta']:g}"),
        ("Loss charged", f"{' and '.join(parts)}, sampler within {loss['total_variation']:.2g} of it"),
        ("Neighbours", f"{promise['neighbours']}; {promise['privacy_unit']}"),
        ("Mechanism", str(noise["mechanism"])),
        ("Sensitivity", f"{noise['sensitivity']:.8g} in spread coordinates ({exact})"),
        ("Noise", f"scale {noise['scale']:.8g} there, on a grid of {noise['grid']}"),
    ]


def origin_rows(facts: Facts) -> list[tuple[str, str]]:
    """Where the release comes from."""
    a = facts.attributes
    software = ", ".join(f"{name} {version}" for name, version in sorted(a["software"].items()))
    return [
        ("Release", a["release_id"]),
        ("Content (SHA-256)", a["output_digest"]),
        ("Plan (SHA-256)", a["plan_digest"]),
        ("Ledger", f"entry {a['ledger']['sequence']}, hash {a['ledger']['row_hash']}"),
        ("Software", software),
    ]


def loading(facts: Facts, folder: str) -> list[tuple[str, str]]:
    """Examples that load the released matrix."""
    kind = facts.kind
    names = "index=group['feature'][...], columns=group['feature'][...]" if facts.symmetric else ""
    table = f"pandas.DataFrame(group['{kind}'][...]{', ' if names else ''}{names})"
    return [
        ("NumPy", f'import zarr\nmatrix = zarr.open_group("{folder}", mode="r")["{kind}"][...]'),
        ("xarray", f'import xarray\nmatrix = xarray.open_zarr("{folder}", consolidated=False)["{kind}"]'),
        ("pandas", f'import pandas, zarr\ngroup = zarr.open_group("{folder}", mode="r")\ntable = {table}'),
    ]


def _comparison(facts: Facts) -> list[str]:
    """Why this mechanism was chosen, where it was chosen automatically."""
    rows = comparison_rows(facts)
    return [f"<h2>Mechanisms compared</h2>{_grid(rows)}"] if rows else []


def comparison_rows(facts: Facts) -> list[dict[str, str]]:
    """Expected error of each mechanism, or why it does not apply."""
    compared = facts.attributes["mechanism"].get("compared", [])
    return [
        {
            "mechanism": row["mechanism"],
            "parameters": json.dumps(row["parameters"]) if len(json.dumps(row["parameters"])) < 200 else "by feature",
            "expected error": number(row["error"]) if row["error"] is not None else row["reason"],
        }
        for row in compared
    ]


def _figure(svg: str, caption: str) -> str:
    return svg and f'<figure role="img" aria-label="{escape(caption)}">{svg}</figure>'


def _pairs(rows: Rows) -> str:
    cells = "".join(f"<tr><th>{escape(what)}</th><td>{escape(value)}</td></tr>" for what, value in rows)
    return f"<table>{cells}</table>"


def _grid(rows: Sequence[dict[str, str]]) -> str:
    names = list(rows[0])
    head = "".join(f"<th{_numeric(name)}>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td{_numeric(name)}>{escape(row[name])}</td>" for name in names) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _numeric(name: str) -> str:
    return "" if name in ("feature", "column") else ' class="n"'


def _markdown_pairs(rows: Rows) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| {_cell(what)} | {_cell(value)} |" for what, value in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


__all__ = ["html", "markdown", "number"]
