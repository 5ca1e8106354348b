"""The wheel: what it holds, and that it works away from the checkout, in a folder that somebody else has prepared."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

import blockveil
from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import serve, server_alone
from tests.end_to_end.test_perimeter import HOSTILE, NIGHT, hostile, worker
from tests.house import support

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("engine", "pipeline", "flows")
BUILD = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
INSTALL = ["install", "--quiet", "--no-deps", "--no-index"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def pip(*words, python=None):
    chosen = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *chosen, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked():
    """Files of the checkout that are not ignored."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the wheel is built from the files that git knows, and this is no checkout")
    return [name for name in listed.split("\0") if name and os.path.lexists(ROOT / name)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that a clean copy of the checkout gives."""
    copy, made = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    pip(*BUILD, made, copy)
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Folder of the commands of an environment with the wheel, which borrows all but Blockveil from this one."""
    home = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(home, with_pip=False)
    pip(*INSTALL, wheel, python=home / "bin" / "python")
    (packages,) = (home / "lib").glob("python*/site-packages")
    # Files named .pth in a folder that is added so are not read, so that of the checkout does not come with it.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = [str(home / "bin" / "python"), "-c", "import blockveil.pipeline as found; print(found.__file__)"]
    said = subprocess.run(where, capture_output=True, text=True, check=True, cwd=home).stdout
    assert said.startswith(str(packages)), "the installed package is not the one that is imported"
    return home / "bin"


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """The folder where all commands are called; it has packages of our names. What is there once one was imported."""
    folder = tmp_path / "strange"
    pwned = hostile(folder)
    for name in ("blockveil", "tests"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(HOSTILE.format(pwned=str(pwned), name=name))
    monkeypatch.chdir(folder)
    return pwned


def run(*words, **more):
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **{name: str(value) for name, value in more.items()}},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_with_its_examples_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"blockveil"}
    assert {name.split("/")[0] for name in names} == {"blockveil", f"{'-'.join(wheel.stem.split('-')[:2])}.dist-info"}
    held = {name.removeprefix("blockveil/") for name in names if name.startswith("blockveil/")}
    listed = tracked()
    modules = {name for name in listed if name.endswith(".py") and name.split("/")[0] in LAYERS}
    modules |= {name.removeprefix("src/blockveil/") for name in listed if name.startswith("src/blockveil/")}
    # Those of the papers are of benchmarks, which need a checkout.
    examples = {name for name in listed if name.startswith("configs/") and not name.startswith("configs/papers/")}
    assert {name for name in held if name.endswith(".py")} == {name for name in modules if name.endswith(".py")}
    assert {name for name in held if not name.endswith((".py", ".pyi"))} == examples | {"py.typed"}


def test_a_type_checker_of_somebody_else_reads_the_types_of_the_wheel(installed, tmp_path):
    shutil.copy(ROOT / "tests" / "data" / "typed_user.py", tmp_path)
    words = ["-m", "mypy", "--strict", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache"]
    # The settings of the checkout are not those of a user.
    checked = run(sys.executable, *words, "--config-file", os.devnull, tmp_path / "typed_user.py")
    assert "no issues found in 1 source file" in checked


def test_the_image_for_containers_has_what_the_wheel_has(wheel, tmp_path):
    context, made = tmp_path / "context", tmp_path / "made"
    text, listed = (ROOT / "docs" / "deploy" / "Containerfile").read_text(), tracked()
    for words, target in re.findall(r"(?m)^COPY (.+) (\S+)$", text):
        for name in (each for each in listed if each.partition("/")[0] in words.split()):
            assert target in ("./", name.partition("/")[0])
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name, follow_symlinks=False)
    pip(*BUILD, made, context)
    (found,) = made.glob("*.whl")
    assert sorted(zipfile.ZipFile(found).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_demo_of_an_installed_package_needs_no_checkout(installed, strange, tmp_path):
    assert "Released credit-default/covariance/" in run(installed / "blockveil", "demo", PREFECT_HOME=tmp_path / "home")
    assert [path.name for path in Path("blockveil-demo").rglob("*.html")]
    assert Path("blockveil-demo/configs/quickstart.toml").exists()
    assert not strange.exists(), strange.read_text()


@pytest.fixture
def nights(tmp_path):
    """A reviewed folder with one deployment; the loaded config."""
    (tmp_path / "deployments.toml").write_text(NIGHT)
    return support.prepare(tmp_path)


def kinds(loaded):
    return [entry.kind for entry in Ledger(loaded.ledger_url).history()]


def test_the_wheel_says_what_it_is_to_an_index(wheel):
    (name,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    found = Metadata.from_email(zipfile.ZipFile(wheel).read(name), validate=True)
    assert str(found.version) == blockveil.__version__
    assert {"LICENSE", "NOTICE"} == set(found.license_files)
    assert {"Operating System :: POSIX :: Linux", "Typing :: Typed"} <= set(found.classifiers)


def test_an_installed_package_serves_a_night(installed, strange, nights, tmp_path):
    command = [str(installed / "blockveil")]
    with serve(tmp_path, tmp_path / "home", command=command, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        state = served.state(served.run("release/people", logical_date="2026-11-20"))
        assert state["type"] == "COMPLETED", state
    assert kinds(nights) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert not strange.exists(), strange.read_text()


def test_a_worker_of_an_installed_package_makes_a_run_of_a_team(installed, strange, nights, tmp_path):
    home, blockveil = tmp_path / "home", installed / "blockveil"
    with server_alone(home) as team:
        run(blockveil, "service", "deploy", tmp_path, PREFECT_HOME=home, PREFECT_API_URL=f"{team.url}/api")
        log = tmp_path / "worker.log"
        with worker(tmp_path, home, team.url, log, called_in=strange.parent, blockveil=blockveil):
            state = team.state(team.run("release/people", logical_date="2026-11-20"))
            assert state["type"] == "COMPLETED", state
    assert "covariance/2026-11-20" in log.read_text(), "the worker made the run, and nobody else"
    assert kinds(nights) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert not strange.exists(), strange.read_text()
