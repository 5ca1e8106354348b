"""Every query under every mechanism that answers it, replayed on neighbours as ``blockveil audit CONFIG`` does.

``python -m benchmarks.replays [QUERY...]`` makes up small configs of each query and shape, under both neighbouring
relations and for units of three rows, and replays all that can be planned. It prints a line for each query and shape,
and one for each mechanism: how many configs and pairs of neighbours were compared, the least and the largest share of
the charged loss that a unit reached, and the noise over its law. A share above 1 refutes a charge, and ends the program
with exit code 10. No clock.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import Plan, make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.study.replay import replay
from blockveil.pipeline.study.replayed import Replayed

WASTE, REFUTED = 0.9, 10
DAY = date(2026, 11, 24)
CONFIG = """
[release]
dataset = "people"
name = "replayed"
[data]
store = "records.zarr"
[query]
{query}
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "{relation}"
unit = "one person"
rows_per_unit = {rows}
[mechanism]
{mechanism}
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""

BOX = """kind = "box"
origin = "midpoint"
features = [ { name = "x", lower = -1, upper = 2, count = 3 }, { name = "y", lower = 0, upper = 40 } ]
"""
SHAPES = {
    "box": BOX,
    "box about zero": BOX.replace("midpoint", "zero"),
    "shortened box": BOX.replace('"midpoint"', '"midpoint"\nnorm_at_most = 0.9'),
    "ball": 'kind = "ball"\nradius = 1.0\nfeatures = [ { name = "b", origin = 0.0, count = 4 } ]\n',
    "ellipsoid": """kind = "ellipsoid"
shape = "diagonal"
features = [
  { name = "a", origin = 0.0, semi_axis = 1.0 }, { name = "b", origin = 0.0, semi_axis = 3.0 },
  { name = "c", origin = 1.0, semi_axis = 0.5 },
]
""",
}
ALLOTTED = '[mechanism.allocation]\nkind = "uniform"'
MECHANISMS = {
    "gaussian": "",
    "shaped-gaussian": 'optimise_for = "relative-error"',
    "laplace": 'optimise_for = "relative-error"',
    "discrete-laplace": "",
    "k-norm": "",
    "box-diagonal": "",
    "shaped-diagonal": 'optimise_for = "absolute-error"',
    "joint-diagonal": 'optimise_for = "absolute-error"',
    "matrix-mechanism": "",
    "hierarchical, Gaussian": 'noise = "gaussian"',
    "hierarchical, Laplace": 'noise = "laplace"',
    "residuals": "",
    "histogram-residuals": "",
    "dawa": "",
    "exponential": "",
    "classic-gaussian": "",
    "mgm": "",
    "imgm": "",
    "analyze-gauss": "",
    "mod-sulq": "",
    "mvg, theorem 2": f'theorem = 2\nzeta = "published"\n{ALLOTTED}',
    "mvg, theorem 3": f'theorem = 3\nzeta = "square-root"\n{ALLOTTED}',
    "mvg-exact": ALLOTTED,
}
IN_SHAPES = ("covariance", "second-moment", "rows", "totals", "principal-directions")
RELATIONS = (("add-remove", 1), ("replace-one", 1), ("add-remove", 3))


def queries() -> Iterator[tuple[str, str, str]]:
    """Kind, shape and text of each query."""
    bound = 'rows_at_most = 60\nmissing = "refuse"\n'
    for kind in IN_SHAPES:
        for shape, text in SHAPES.items():
            more = "directions = 1\n" * (kind == "principal-directions")
            yield kind, shape, f'kind = "{kind}"\n{more}{bound}[query.geometry]\n{text}'
    for left, right in (("ball", "ball"), ("box", "ball"), ("box about zero", "box")):
        other = SHAPES[left].replace('"x"', '"l"').replace('"y"', '"m"').replace('"b"', '"n"')
        sides = f"[query.left]\n{other}[query.right]\n{SHAPES[right]}"
        yield "outer-products", f"{left}, {right}", f'kind = "outer-products"\n{bound}{sides}'
    for outside in ("drop", "clip"):
        one, two, three = (
            f'[[query.axes]]\nname = "{name}"\nlower = 0\nupper = 8\ncells = {cells}\n'
            for name, cells in (("u", 8), ("v", 4), ("w", 2))
        )
        grid = f'kind = "counts"\n{bound}outside = "{outside}"\n'
        yield "counts", f"cells, {outside}", grid + one + two
        yield "counts", f"ranges, {outside}", f'{grid}workload = "ranges"\n{one}'
        yield "counts", f"ranges of two axes, {outside}", f'{grid}workload = "ranges"\n{one}{two}'
        yield "marginals", f"pairs, {outside}", f"{grid.replace('counts', 'marginals')}ways = 2\n{one}{two}{three}"
    for missing in ("refuse", "drop", "count"):
        features = 'powers = [-2, 4]\nfeatures = [ { name = "a" }, { name = "b", edges = [0, 1, 5] } ]\n'
        text = bound.replace('missing = "refuse"', f'missing = "{missing}"')
        yield "column-histograms", f"missing: {missing}", f'kind = "column-histograms"\n{text}{features}'
    yield from _gradients(f'kind = "gradients"\n{bound}clipping_norm = 1.0\n[query.geometry]\n{BOX}')


def _gradients(begins: str) -> Iterator[tuple[str, str, str]]:
    targets = {"logistic": "classes = 2", "softmax": "classes = 3", "squared": "lower = -1, upper = 3"}
    of = {
        loss: f'{begins}[query.model]\nloss = "{loss}"\ntarget = {{ name = "t", {target} }}\n'
        for loss, target in targets.items()
    }
    yield from (("gradients", loss, text) for loss, text in of.items())
    steps = 'examples = 40\noptimiser = "sgd"\nlearning_rate = 0.5\n'
    batches = 'batches = "fixed"\nbatch_count = 2\nbatch_seed = "any"\n'
    trained = f"{of['logistic']}[query.training]\n"
    yield "gradients", "logistic, 3 steps", f'{trained}steps = 3\nbatches = "full"\n{steps}'
    yield "gradients", "logistic, 4 steps of batches", f"{trained}steps = 4\n{batches}{steps}"
    yield "gradients", "logistic, noise over 2 steps", f"{trained}steps = 4\nband = 2\n{batches}{steps}"


@dataclass(frozen=True)
class Line:
    """What was found of one config."""

    query: str
    shape: str
    relation: str
    mechanism: str
    found: Replayed


def planned(folder: Path, query: str, relation: tuple[str, int], mechanism: str) -> Plan | None:
    """Plan of a config; None where the mechanism does not answer the query."""
    kind = mechanism.split(",")[0]
    text = CONFIG.format(
        query=query, relation=relation[0], rows=relation[1], mechanism=f'kind = "{kind}"\n{MECHANISMS[mechanism]}'
    )
    path = folder / "replayed.toml"
    path.write_text(text)
    try:
        return make_plan(load_config(path), DAY)
    except ConfigError as error:
        if kind == "gaussian" and relation[1] == 1:
            print(f"not planned: {query.splitlines()[0]}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def replayed(asked: list[str]) -> Iterator[Line]:
    """All configs, or those of some kinds of query."""
    seen = set[str]()
    with tempfile.TemporaryDirectory() as folder:
        for kind, shape, query in queries():
            if asked and kind not in asked:
                continue
            for relation in RELATIONS if shape == "box" or kind not in IN_SHAPES else RELATIONS[:2]:
                for mechanism in MECHANISMS:
                    plan = planned(Path(folder), query, relation, mechanism)
                    if plan is not None:
                        first = mechanism not in seen
                        seen.add(mechanism)
                        found = replay(plan, ThreadCompute(1), lambda *_: None, draws=first)
                        several = f", {relation[1]} rows" * (relation[1] > 1)
                        yield Line(kind, shape, relation[0] + several, mechanism, found)


def summary(lines: list[Line], of: str) -> None:
    """Print a row for each query, or for each mechanism."""
    rows: dict[str, list[Line]] = {}
    for line in lines:
        rows.setdefault(f"{line.query}, {line.relation}" if of == "query" else line.mechanism, []).append(line)
    print(f"\n| {of} | configs | pairs | share of the charge | noise over its law |\n|---|---|---|---|---|")
    for name, every in rows.items():
        found = [line.found for line in every]
        shares = [each.share for each in found if each.share is not None]
        noise = [f"{each.spread:.3f}" for each in found if each.spread is not None]
        told = f"{min(shares):.4f} to {max(shares):.4f}" if shares else "not told"
        few = f", {len(found) - len(shares)} not told" * (0 < len(shares) < len(found))
        print(f"| {name} | {len(found)} | {sum(each.pairs for each in found):,} | {told}{few} | {', '.join(noise)} |")


def main() -> None:
    """Replay and print."""
    lines, refuted = list[Line](), 0
    for line in replayed(sys.argv[1:]):
        lines.append(line)
        found, where = line.found, f"{line.query}, {line.shape}, {line.relation}, {line.mechanism}"
        refuted += bool(found.refutations)
        if found.refutations or found.share is None or found.share < WASTE:
            said = found.refutations or found.not_tested or f"{found.share:.4f}: {found.where}"
            print(f"{where}: {said}", flush=True)
    for of in ("query", "mechanism"):
        summary(lines, of)
    print(f"\n{len(lines)} configs, {sum(line.found.pairs for line in lines):,} pairs, {refuted} refuted")
    if refuted:
        sys.exit(REFUTED)


if __name__ == "__main__":
    main()
