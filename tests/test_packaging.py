"""The package installs what it was tested with: pins in the metadata, the same in the lock, and nothing undeclared."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
ANALYSIS = [Requirement(text) for text in PROJECT["project"]["optional-dependencies"]["analysis"]]
DEVELOPMENT = [Requirement(text) for text in PROJECT["project"]["optional-dependencies"]["dev"]]
BUILD = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
LOCK = (ROOT / "requirements.lock").read_text()
NEWEST_PYTHON = (3, 13)


def entries():
    """Requirement and hashes of each entry of the lock."""
    for block in re.split(r"\n(?=\S)", LOCK):
        if not block.startswith("#"):
            first, *hashes = (line.strip().removesuffix("\\").strip() for line in block.strip().splitlines())
            yield Requirement(first), hashes


LOCKED = list(entries())


def locked_versions(name):
    """Every version of a package that the lock holds; one for each range of Python versions."""
    found = [only(entry.specifier) for entry, _ in LOCKED if canonicalize_name(entry.name) == canonicalize_name(name)]
    assert found, f"{name} is not in the lock"
    return found


def only(specifier):
    (one,) = specifier
    assert one.operator == "=="
    return one.version


def requirement(name):
    (found,) = [entry for entry in RUNTIME if entry.name == name]
    return found.specifier


@pytest.mark.parametrize("wanted", RUNTIME + ANALYSIS + DEVELOPMENT + BUILD, ids=str)
def test_the_lock_holds_every_requirement_in_a_version_it_allows(wanted):
    assert all(wanted.specifier.contains(version) for version in locked_versions(wanted.name))


@pytest.mark.parametrize("wanted", RUNTIME + DEVELOPMENT, ids=str)
def test_what_is_installed_is_allowed(wanted):
    assert wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)


def test_the_installed_package_carries_the_pins():
    carried = [Requirement(text) for text in metadata.requires("blockveil")]
    assert {str(entry) for entry in carried if entry.marker is None} == {str(entry) for entry in RUNTIME}


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("fastapi", ["0.151.0", "0.154.0", "0.155.0", "0.165.0"]),  # the server refuses requests, or does not start
        ("sqlalchemy", ["2.1.0", "2.1.3"]),  # the scheduler never schedules
        ("prefect", ["3.9.0", "3.9.1"]),  # not tested together
    ],
)
def test_versions_that_break_the_nights_are_excluded_without_the_lock_too(name, broken):
    assert not [version for version in broken if requirement(name).contains(version)]


def test_every_locked_file_has_a_hash():
    assert len(LOCKED) > 100
    for entry, hashes in LOCKED:
        assert hashes, f"{entry.name} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes)


def test_the_lock_names_no_machine_and_no_index():
    assert not re.search(r"(?m)://|--index|--find-links|^\s*-e |@ |/home/|/tmp|/root", LOCK)


def test_every_supported_python_is_declared():
    supported = SpecifierSet(PROJECT["project"]["requires-python"])
    assert supported.contains(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert not supported.contains(f"{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1] + 1}")


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
    [(("engine", "pipeline", "flows"), RUNTIME + ANALYSIS), (("tests", "benchmarks"), RUNTIME + DEVELOPMENT)],
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
