"""``blockveil public step``: from a released gradient to the next weights of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blockveil.flows.cli.common import Json, print_answer

Release = Annotated[Path, typer.Argument(help="Pointer or folder of a release of gradients.", show_default=False)]
Output = Annotated[Path, typer.Option(help="New .npz file for the weights.", show_default=False)]
Examples = Annotated[float, typer.Option(help="Public number of examples to divide by.", show_default=False)]
Rate = Annotated[float, typer.Option("--learning-rate", help="Length of the step.", show_default=False)]
Before = Annotated[Path | None, typer.Option("--weights", help="Weights of the gradient; zeros by default.")]


def step(
    release: Release,
    output: Output,
    examples: Examples,
    rate: Rate,
    before: Before = None,
    as_json: Json = False,
) -> None:
    """Take one step of training along a released gradient. Post-processing: costs no privacy."""
    from blockveil.pipeline.public import weights

    parameters = weights.step(release, None if before is None else weights.load(before), examples, rate)
    _print(output, weights.save(parameters, output), as_json)


def start(
    output: Output,
    inputs: Annotated[int, typer.Option(min=1, help="Number of features.", show_default=False)],
    outputs: Annotated[int, typer.Option(min=1, help="Number of outputs.", show_default=False)],
    seed: Annotated[int, typer.Option(help="Public seed.", show_default=False)],
    hidden: Annotated[
        list[int] | None, typer.Option(min=1, help="Units of a hidden layer; once for each hidden layer.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write random weights with which training starts."""
    from blockveil.pipeline.public import weights

    parameters = weights.random(weights.shapes(inputs + 1, hidden or (), outputs), seed)
    _print(output, weights.save(parameters, output), as_json)


def _print(path: Path, digest: str, as_json: bool) -> None:
    rows = [("weights", f'"{path}"'), ("weights_sha256", f'"{digest}"')]
    print_answer(rows, as_json, weights=path, weights_sha256=digest)
