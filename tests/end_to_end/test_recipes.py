"""The recipes for contributors, followed to the letter: a package with one of each releases."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import support

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "docs" / "contributing"
NIGHT = "2026-11-20"
RECIPE_TESTS = {"mechanism": "mechanism", "query": "query", "ledger": "ledger", "key-store": "keys"}
"""Name of the tests of each recipe."""


def shown():
    """Path and text of every file that the recipes show; parts of one file follow one another."""
    for recipe in ("README", *RECIPE_TESTS):
        text = (RECIPES / f"{recipe}.md").read_text()
        for found in re.finditer(r"```(?:python|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL):
            yield recipe, *found.groups()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of the package that the recipes show, and where it is installed."""
    folder = tmp_path_factory.mktemp("toy")
    files = {}
    for _, path, text in shown():
        files[path] = f"{files[path]}\n{text}" if path in files else text
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    pip = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([sys.executable, *pip, str(folder)], check=True, timeout=600, capture_output=True)
    return folder


@pytest.fixture
def toy(package, tmp_path):
    """Runs Python with the package installed, in the folder of a config."""

    def run(*arguments):
        env = {**os.environ, "PYTHONPATH": str(package / "site"), "TOY_LEDGER": f"toyfile://{tmp_path}/toy.db"}
        env["TOY_KEYS"] = f"toykeys://{tmp_path}/toy-keys"
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False)

    return run


COMMANDS = """
import contextlib, io, json, sys
from blockveil.flows.cli import main
found = []
for words in json.loads(sys.argv[1]):
    sys.argv, said, code = ["blockveil", *words], io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    found.append((code, said.getvalue()))
print(json.dumps(found))
"""


def blockveil(toy, *commands):
    """Exit code of each command and what it says; one process calls all, since most of its time is its start."""
    done = toy("-c", COMMANDS, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def config(folder, release=""):
    """A config with one of each."""
    support.write_records(folder, support.records())
    text = support.write_config(folder, kind="toy-products").read_text()
    text = text.replace('name = "covariance"', f'name = "products"\n{release}')
    text = text.replace(
        'kind = "shaped-gaussian"\noptimise_for = "relative-error"', 'kind = "toy-cautious"\ncaution = 2'
    )
    (folder / "people.toml").write_text(
        text.replace('"ledger.db"', '"env:TOY_LEDGER"').replace('"keys"', '"env:TOY_KEYS"')
    )


@pytest.mark.parametrize("recipe", RECIPE_TESTS)
def test_a_recipe_touches_at_most_three_files(recipe):
    files = {path for of, path, _ in shown() if of == recipe}
    assert 2 < len(files) <= 3
    assert "pyproject.toml" in files


@pytest.mark.slow
def test_the_package_passes_the_tests_and_contracts_of_its_recipes(package, toy):
    done = toy("-m", "pytest", "-v", "-p", "no:cacheprovider", str(package / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(re.findall(r"(?m)test_([a-z]+)\.py::.* PASSED", done.stdout))
    assert passed == set(RECIPE_TESTS.values())
    assert " skipped" not in done.stdout


@pytest.mark.slow
def test_its_mechanism_is_listed_as_unvetted_and_audited(toy):
    claim = ("--epsilon", "0.9", "--delta", "1e-5", "--trials", "2000")
    (code, listed), whole, mutant = blockveil(
        toy,
        ("study", "mechanisms"),
        ("audit", "toy-cautious", *claim),
        ("audit", "toy-cautious", *claim, "--mutant", "unclipped"),
    )
    line = next(line for line in listed.splitlines() if line.startswith("toy-cautious"))
    assert code == 0
    assert "unvetted" in line
    assert "toy-blockveil 1.2" in line
    assert whole[0] == 0, whole[1]
    assert "REFUTED" not in whole[1]
    assert mutant[0] == 10, mutant[1]


GRANT = ("ledger", "grant", "people.toml", "--epsilon", "3", "--delta", "1e-5")


@pytest.mark.slow
def test_it_plans_and_is_refused_a_release_that_does_not_allow_it(toy, tmp_path):
    config(tmp_path)
    granted, planned, refused = blockveil(
        toy,
        GRANT,
        ("plan", "people.toml", "--date", NIGHT),
        ("run", "people.toml", "--date", NIGHT, "--no-prefect"),
    )
    assert granted[0] == 0, granted[1]
    assert planned[0] == 0, planned[1]
    assert "unvetted" in planned[1]
    assert "toy-cautious" in planned[1]
    assert refused[0] != 0
    assert "allow_unvetted = true in [release]" in " ".join(refused[1].split())
    assert not (tmp_path / "releases" / "people").exists()
    assert not (tmp_path / "toy-keys").exists()


@pytest.mark.slow
def test_it_releases_where_the_config_allows_it_and_everything_says_unvetted(toy, tmp_path):
    config(tmp_path, "allow_unvetted = true")
    granted, released, (_, entries) = blockveil(
        toy,
        GRANT,
        ("run", "people.toml", "--date", NIGHT, "--no-prefect"),
        ("ledger", "export", "people.toml"),
    )
    assert granted[0] == 0, granted[1]
    assert released[0] == 0, released[1]
    assert "unvetted" in released[1]
    payloads = [json.loads(json.loads(line)["payload"]) for line in entries.splitlines()]
    named = [payload["spec"]["unvetted"] for payload in payloads if "spec" in payload]
    assert [each["kind"] for each in named[0]] == ["toy-cautious", "toy-products"]
    kept = [path.name for path in (tmp_path / "toy-keys").iterdir()]
    assert kept == ["content"]  # the key of the noise was kept there, and is destroyed; that of digests stays
    pages = "".join(path.read_text() for path in (tmp_path / "releases").rglob("*.html"))
    assert "Unvetted" in pages
