"""The package installs what it was tested with: pins in the metadata, the same in the lock, and nothing undeclared."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from blockveil.pipeline.base.extras import EXTRAS
from tests.house import support

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
EXTRA = {
    name: [Requirement(text) for text in texts] for name, texts in PROJECT["project"]["optional-dependencies"].items()
}
OPTIONAL = [entry for name, entries_ in EXTRA.items() if name != "dev" for entry in entries_]
DEVELOPMENT = EXTRA["dev"]
BUILD = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
LOCK, LOWEST = "requirements.lock", "requirements-lowest.lock"
NEWEST_PYTHON = (3, 14)


def entries(lock):
    """Requirement and hashes of each entry of a lock."""
    for block in re.split(r"\n(?=\S)", (ROOT / lock).read_text()):
        if not block.startswith("#"):
            first, *hashes = (line.strip().removesuffix("\\").strip() for line in block.strip().splitlines())
            yield Requirement(first), hashes


LOCKED = {lock: list(entries(lock)) for lock in (LOCK, LOWEST)}


def locked_versions(lock, name):
    """Every version of a package that a lock holds; one for each range of Python versions."""
    wanted = canonicalize_name(name)
    found = [only(entry.specifier) for entry, _ in LOCKED[lock] if canonicalize_name(entry.name) == wanted]
    assert found, f"{name} is not in {lock}"
    return found


def only(specifier):
    (one,) = specifier
    assert one.operator == "=="
    return one.version


def requirement(name):
    (found,) = [entry for entry in RUNTIME + OPTIONAL if entry.name == name]
    return found.specifier


@pytest.mark.parametrize("lock", LOCKED)
@pytest.mark.parametrize("wanted", RUNTIME + OPTIONAL + DEVELOPMENT + BUILD, ids=str)
def test_each_lock_holds_every_requirement_in_a_version_it_allows(lock, wanted):
    assert all(wanted.specifier.contains(version) for version in locked_versions(lock, wanted.name))


@pytest.mark.parametrize("wanted", RUNTIME + OPTIONAL + DEVELOPMENT, ids=str)
def test_the_least_version_that_is_declared_is_the_one_that_is_tested(wanted):
    (least,) = [Version(each.version) for each in wanted.specifier if each.operator == ">="]
    assert {Version(version) for version in locked_versions(LOWEST, wanted.name)} == {least}


@pytest.mark.parametrize("wanted", RUNTIME + OPTIONAL + DEVELOPMENT, ids=str)
def test_what_is_installed_is_allowed(wanted):
    assert wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)


def test_the_installed_package_carries_the_pins():
    carried = [Requirement(text) for text in metadata.requires("blockveil")]
    assert {str(entry) for entry in carried if entry.marker is None} == {str(entry) for entry in RUNTIME}


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("prefect", ["3.8.8", "3.9.0"]),  # on SQLAlchemy 2.1 the scheduler never schedules; no bound of FastAPI
        ("scipy", ["1.15.0", "1.15.2"]),  # the loss of a subsampled series is not a number
    ],
)
def test_versions_that_break_the_nights_are_excluded_without_the_lock_too(name, broken):
    assert not [version for version in broken if requirement(name).contains(version)]


CAPPED = {"duckdb": "pipeline/data/ingest/test_database_locks.py", "sqlglot": "pipeline/config/test_row_query.py"}
"""What has a newest version: a test fails there when another series does otherwise, and users would be harmed first."""


def test_nothing_else_has_a_newest_version_than_what_a_test_holds():
    caps = {each.name for each in RUNTIME + OPTIONAL for bound in each.specifier if bound.operator in ("<", "<=", "==")}
    assert caps == set(CAPPED)
    assert all((ROOT / "tests" / path).is_file() for path in CAPPED.values())


@pytest.mark.parametrize("lock", LOCKED)
def test_every_locked_file_has_a_hash(lock):
    assert len(LOCKED[lock]) > 100
    for entry, hashes in LOCKED[lock]:
        assert hashes, f"{entry.name} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes)


@pytest.mark.parametrize("lock", LOCKED)
def test_no_lock_names_a_machine_or_an_index(lock):
    text = (ROOT / lock).read_text()
    assert not re.search(r"(?m)://|--index|--find-links|^\s*-e |@ |/home/|/tmp|/root", text)


def test_every_supported_python_is_declared():
    supported = SpecifierSet(PROJECT["project"]["requires-python"])
    assert supported.contains(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert not supported.contains(f"{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1] + 1}")


def test_an_index_lists_every_supported_python():
    supported = SpecifierSet(PROJECT["project"]["requires-python"])
    listed = {name.rpartition(" ")[2] for name in PROJECT["project"]["classifiers"] if " :: Python :: " in name}
    assert listed == {f"3.{minor}" for minor in range(30) if f"3.{minor}" in supported}


def test_the_core_that_runs_on_other_versions_is_of_files_that_exist_each_once():
    core = (ROOT / "tests" / "core.txt").read_text().split()
    assert len(core) == len(set(core)) > 10
    assert all((ROOT / path).is_file() for path in core)


def imported(*folders):
    """Top-level names that the source imports, at the top or within functions."""
    names = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"blockveil", "tests", "benchmarks"}


@pytest.mark.parametrize(
    ("folders", "allowed"),
    [
        (("engine", "pipeline", "flows"), RUNTIME + OPTIONAL),
        (("tests", "benchmarks"), RUNTIME + OPTIONAL + DEVELOPMENT),
    ],
    ids=["product", "tests"],
)
def test_every_import_is_a_declared_requirement(folders, allowed):
    providers = metadata.packages_distributions()
    declared = {canonicalize_name(entry.name) for entry in allowed}
    undeclared = {
        name
        for name in imported(*folders)
        if not declared & {canonicalize_name(provider) for provider in providers.get(name, [])}
    }
    assert not undeclared


def test_the_package_ships_its_layers_and_its_licence_and_nothing_else():
    distribution = metadata.distribution("blockveil")
    assert {"LICENSE", "NOTICE"} <= {Path(str(name)).name for name in distribution.metadata.get_all("License-File")}
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    (script,) = distribution.entry_points.select(group="console_scripts")
    assert script.load().__module__ == "blockveil.flows.cli"


def test_every_extra_that_a_message_names_brings_what_was_missing():
    brought = {name: {canonicalize_name(entry.name) for entry in found} for name, found in EXTRA.items()}
    assert all(canonicalize_name(module) in brought[extra] for module, extra in EXTRAS.items())
    named = {canonicalize_name(module) for module in EXTRAS}
    assert {canonicalize_name(entry.name) for entry in OPTIONAL} == named


LIGHT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from blockveil.flows.cli import main
sys.argv = ["blockveil", *sys.argv[1:]]
main()
"""


@pytest.fixture
def light(tmp_path):
    """Runs a command where no extra is installed."""
    support.write_records(tmp_path, support.records())
    support.write_config(tmp_path)
    program = LIGHT.format(absent=sorted(EXTRAS))

    def run(*words):
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


CLINIC = """
columns = [{ name = "cost", kind = "number", missing = "refuse" }]
ingest = { store = "clinic.zarr" }
source = { kind = "sqlite", file = "clinic.db", query = "SELECT cost FROM visits" }
unit = { kind = "row", name = "one visit" }
"""


@pytest.mark.slow
def test_without_extras_a_release_is_planned_granted_made_and_reported(light):
    for words in (
        ("plan", "people.toml"),
        ("ledger", "grant", "people.toml", "--epsilon", "3", "--delta", "1e-5"),
        ("run", "people.toml", "--date", "2026-11-20", "--no-prefect"),
        ("report", "releases/people/covariance/2026-11-20.json"),
        ("ledger", "verify", "people.toml"),
    ):
        done = light(*words)
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        *(
            pytest.param(words, extra, marks=pytest.mark.slow)
            for words, extra in (
                (("run", "people.toml"), "server"),
                (("serve", "."), "server"),
                (("plan", "people.toml", "--set", 'data.store="s3://bucket/people.zarr"'), "s3"),
                (("ledger", "verify", "--ledger", "env:LEDGER"), "postgres"),
            )
        ),
        (("ingest", "clinic.toml"), "sql"),
        (("plan", "sampled.toml"), "training"),
    ],
)
def test_what_needs_an_extra_names_it(light, monkeypatch, tmp_path, words, extra):
    monkeypatch.setenv("LEDGER", "postgresql://nobody@127.0.0.1:1/ledger")
    (tmp_path / "deployments.toml").write_text("")
    (tmp_path / "clinic.toml").write_text(CLINIC)
    whole = (ROOT / "configs" / "train-model.toml").read_text()
    (tmp_path / "sampled.toml").write_text(
        whole.replace('batches = "full"', 'batches = "poisson"\nsampling_probability = 0.05')
    )
    done = light(*words)
    assert done.returncode == 2, done.stderr
    assert f'pip install "blockveil[{extra}]"' in done.stderr


def test_a_run_without_the_server_extra_starts_no_server_that_could_not_say_why(light, monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    done = light("run", "people.toml")
    assert done.returncode == 2, done.stderr
    assert 'pip install "blockveil[server]"' in done.stderr
    assert not list(tmp_path.glob("home/*server.log"))


@pytest.mark.slow
def test_without_extras_the_demo_releases_in_its_own_process(light):
    done = light("demo")
    assert done.returncode == 0, done.stderr
    assert "Prefect is not installed: the same steps run in this process" in done.stdout
    assert "Released credit-default/covariance/" in done.stdout
