"""The fleets of the documentation, as far as one machine can be one: same bits as one process, and nothing in clear."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tomllib
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
import zarr

from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from tests.end_to_end.served import free_port
from tests.house import support
from tests.house.shipped import pinned_key
from tests.pipeline.releases.test_release import NIGHT

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
BIN = Path(sys.executable).parent

SUBMIT = """#!/bin/sh
# What a node does with a job, as a process of its own group.
grep -q '^#SBATCH -p batch$' "$1" || exit 1
cp "$1" "{jobs}/$$.sh"
setsid sh "{jobs}/$$.sh" >"{jobs}/$$.out" 2>&1 &
echo $! >>"{jobs}/running"
echo "Submitted batch job $!"
"""
CANCEL = """#!/bin/sh
for job in "$@"; do kill -TERM -- "-$job" 2>/dev/null; done
exit 0
"""


PINNED = """
import sys
from blockveil.flows.cli import main
from tests.house.shipped import pinned_key
with pinned_key():
    main()
"""


def configured(folder, section=None):
    """Records, budget and config of a release on the cluster of a section."""
    folder.mkdir()
    path = support.prepare(folder).path
    if section is not None:
        text = path.read_text().replace("[compute]", "[compute]\nmemory_gib = 1")
        path.write_text(text.replace('kind = "threads"', section))
    return load_config(path)


def arrays(loaded):
    """What was released."""
    found = find_published(loaded.output_root, make_plan(loaded, NIGHT).release_id)
    return {name: np.asarray(array[...]) for name, array in zarr.open_group(found.path, mode="r").arrays()}


def release(folder, section=None):
    """Arrays of a release of the same records under the same key, on the cluster of a section."""
    loaded = configured(folder, section)
    with pinned_key(), open_compute(loaded) as compute:
        run_release(make_plan(loaded, NIGHT), compute, "test", lambda *_: None)
    return arrays(loaded)


def command(loaded):
    """The same by the command line: what the package of another project leaves open is no error there."""
    words = ["run", str(loaded.path), "--no-prefect", "--date", str(NIGHT)]
    return subprocess.run(
        [sys.executable, "-c", PINNED, *words], capture_output=True, timeout=300, check=False, cwd=ROOT
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The release of one process."""
    return release(tmp_path_factory.mktemp("alone") / "run")


def assert_same(found, alone):
    assert found.keys() == alone.keys()
    for name, array in alone.items():
        assert np.array_equal(found[name], array, equal_nan=True), name


@contextmanager
def slurm(folder, monkeypatch):
    """Commands of Slurm that start processes of this machine."""
    jobs, commands = folder / "jobs", folder / "bin"
    jobs.mkdir()
    commands.mkdir()
    for name, text in (("sbatch", SUBMIT), ("scancel", CANCEL)):
        (commands / name).write_text(text.format(jobs=jobs) if name == "sbatch" else text)
        (commands / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    try:
        yield jobs
    finally:
        for job in (jobs / "running").read_text().split() if (jobs / "running").exists() else ():
            with suppress(ProcessLookupError):
                os.killpg(int(job), signal.SIGKILL)


def slurm_section(folder, **changes):
    """The documented section, for the folders, memory and network of one machine."""
    for name in ("tls", "scratch", "logs"):
        (folder / name).mkdir(mode=0o700)
    text = (DEPLOY / "slurm.toml").read_text().partition("[cluster]\n")[2]
    moves = {
        "/shared/blockveil/tls": folder / "tls",
        "/scratch/blockveil": folder / "scratch",
        "/shared/blockveil/logs": folder / "logs",
        '"ib0"': '"lo"',
        "16GiB": "1GiB",
        "workers = 8": "workers = 2",
        "threads_per_worker = 4": "threads_per_worker = 1",
        "cores = 4": "cores = 1",
        **changes,
    }
    for old, new in moves.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text


@pytest.mark.slow
def test_a_release_on_jobs_of_slurm_has_the_bits_of_one_process(tmp_path, monkeypatch, alone):
    with slurm(tmp_path, monkeypatch) as jobs:
        loaded = configured(tmp_path / "fleet", slurm_section(tmp_path))
        done = command(loaded)
        assert done.returncode == 0, done.stderr.decode()
        assert_same(arrays(loaded), alone)
        scripts = [file.read_text() for file in jobs.glob("*.sh")]
    assert len(scripts) >= 2
    for script in scripts:
        assert "umask 077" in script.splitlines()
        assert "export PYTHONSAFEPATH=1" in script.splitlines()
        assert "--tls-key" in script
        assert "BEGIN" not in script, "no certificate or key stands in a job"
    assert list((tmp_path / "tls").iterdir()) == [], "the certificates ended with the run"
    assert stat.S_IMODE((tmp_path / "scratch").stat().st_mode) == 0o700


@pytest.mark.slow
def test_jobs_of_slurm_that_talk_in_clear_are_refused(tmp_path, monkeypatch):
    in_clear = {'protocol = "tls://"': 'protocol = "tcp://"', "security = true ": "# none "}
    with slurm(tmp_path, monkeypatch):
        done = command(configured(tmp_path / "fleet", slurm_section(tmp_path, **in_clear)))
    assert done.returncode != 0
    assert "TLS" in done.stderr.decode()


def manifest():
    """Documents of the manifest by kind and name."""
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {(one["kind"], one["metadata"]["name"]): one["spec"] for one in found}


def containers():
    """The containers that the manifest runs, by name."""
    specs = [spec["template"]["spec"] for (kind, _), spec in manifest().items() if kind == "Deployment"]
    return {one["name"]: one for spec in specs for one in spec["containers"]}


def test_the_manifest_selects_its_own_pods_and_gives_them_no_rights():
    found = manifest()
    deployments = {name: spec for (kind, name), spec in found.items() if kind == "Deployment"}
    labels = {name: spec["template"]["metadata"]["labels"] for name, spec in deployments.items()}
    for name, spec in deployments.items():
        assert spec["selector"]["matchLabels"].items() <= labels[name].items()
        pod = spec["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"] for volume in pod["volumes"]}
        for one in pod["containers"]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
            assert {mount["name"] for mount in one["volumeMounts"]} == volumes
            assert {"name": "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "value": "true"} in one["env"]
    service = found["Service", "blockveil-dask"]
    assert service["selector"].items() <= labels["blockveil-dask-scheduler"].items()
    policy = found["NetworkPolicy", "blockveil-dask"]
    for one in labels.values():
        assert policy["podSelector"]["matchLabels"].items() <= one.items()


def test_the_page_names_the_scheduler_of_the_manifest():
    page = (ROOT / "docs" / "how-to" / "fleets.md").read_text()
    (section,) = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    _, _, address = section["cluster"]["address"].partition("://")
    assert address == f"blockveil-dask:{manifest()['Service', 'blockveil-dask']['ports'][0]['port']}"
    assert f"tls://{address}" in containers()["worker"]["command"]


@contextmanager
def pod(container, folder, changes):
    """A container's command as a process of this machine."""
    words = container["command"]
    for old, new in changes.items():
        words = [word.replace(old, new) for word in words]
    given = {one["name"]: one["value"] for one in container["env"]}
    environment = {**os.environ, **given, "PYTHONPATH": str(ROOT)}
    with (folder / f"{container['name']}.log").open("ab") as log:
        process = subprocess.Popen(
            [BIN / words[0], *words[1:]], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on the PATH")
def test_a_release_on_the_pods_of_the_manifest_has_the_bits_of_one_process(tmp_path, alone):
    page = (ROOT / "docs" / "operations.md").read_text()
    certificates = re.findall(r"```sh\n(umask 077\n.*?)```", page, re.DOTALL)[0]
    tls = tmp_path / "tls"
    tls.mkdir()
    subprocess.run(["bash", "-euc", certificates], cwd=tls, check=True, capture_output=True, timeout=60)
    port = str(free_port())
    changes = {
        "/etc/blockveil/tls": str(tls),
        "blockveil-dask:8786": f"127.0.0.1:{port}",
        "--port=8786": f"--port={port}",
        "127.0.0.1:8787": "127.0.0.1:0",
        "16GiB": "1GiB",
        "/tmp/spill": str(tmp_path / "spill"),
    }
    section = (ROOT / "docs" / "how-to" / "fleets.md").read_text().partition("```toml\n[cluster]\n")[2]
    section = section.partition("```")[0]
    for old, new in changes.items():
        section = section.replace(old, new)
    with ExitStack() as stack:
        for name in ("scheduler", "worker"):
            stack.enter_context(pod(containers()[name], tmp_path, changes))
        assert_same(release(tmp_path / "fleet", section), alone)
