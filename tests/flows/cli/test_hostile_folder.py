"""Nothing in the folder where a command is called is imported, by the command or by the processes that it starts.

Whole nights in such a folder, of a checkout and of an installed wheel, are in ``tests/end_to_end``.
"""

import ast
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STARTING = sorted(path for layer in ("engine", "pipeline", "flows") for path in (ROOT / layer).rglob("*.py"))
NAMES = ("blockveil", "engine", "pipeline", "flows", "tests", "numpy", "zarr", "dask", "pydantic", "typer", "random")


def interpreters(tree):
    """Every list of words, or other use, that names this interpreter."""
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.List)]
    within = {id(part) for each in lists for part in each.elts}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
            yield next((each for each in lists if node in each.elts), None) if id(node) in within else None


def unsafe(text):
    """Uses of this interpreter that would look for modules in the present folder."""
    return [
        used
        for used in interpreters(ast.parse(text))
        if used is None or ast.unparse(used.elts[0]) != "sys.executable" or ast.unparse(used.elts[1]) != "'-P'"
    ]


def test_no_interpreter_that_is_started_looks_for_modules_in_the_present_folder():
    started = {path: path.read_text() for path in STARTING if "sys.executable" in path.read_text()}
    assert started
    assert [path.name for path, text in started.items() if unsafe(text)] == []


@pytest.mark.parametrize(
    "call", ['run([sys.executable, "-m", "prefect"])', 'run(["nice", sys.executable, "-P"])', "run(sys.executable)"]
)
def test_an_interpreter_that_looks_there_is_found(call):
    assert unsafe(call)
    assert not unsafe('run([sys.executable, "-P", "-m", "prefect"])')


def test_a_command_imports_nothing_from_the_folder_where_it_is_called(tmp_path):
    ran = tmp_path / "ran"
    for name in NAMES:
        code = f'open({str(ran)!r}, "w").write({name!r})\nraise SystemExit("a stranger")\n'
        (tmp_path / f"{name}.py").write_text(code)

    def run(*command):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
        )

    blockveil = Path(sysconfig.get_path("scripts")) / "blockveil"
    done = run(blockveil, "plan", ROOT / "configs" / "quickstart.toml", "--rows", "30000")
    assert (done.returncode, "standard deviation" in done.stdout) == (0, True), done.stdout + done.stderr
    assert not ran.exists(), ran.read_text()
    run(sys.executable, "-c", "import numpy")
    assert ran.exists(), "the trap works"
