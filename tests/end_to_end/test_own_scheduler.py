"""A scheduler of one's own, by the lines of the runbook: certificates, scheduler, workers, a release."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.night import run_release
from tests.end_to_end.served import free_port
from tests.house import support
from tests.house.strangers import REFUSAL, stranger
from tests.pipeline.releases.test_release import NIGHT

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def documented():
    """The shell lines of the runbook's part on schedulers."""
    page = (ROOT / "docs" / "operations.md").read_text()
    part = page.partition("### A Dask scheduler of your own")[2].partition("\n## ")[0]
    certificates, scheduler, worker = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    routes = dict(re.findall(r'`(DASK_\w+)="(\[\])"`', part))
    assert len(routes) == 2
    return certificates, scheduler, worker, routes


@contextmanager
def running(line, folder, routes):
    with (folder / "dask.log").open("ab") as log:
        words = line.replace("\\\n", " ").split()
        process = subprocess.Popen(
            [BIN / words[0], *words[1:]],
            cwd=folder,
            env={**os.environ, **routes, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on the PATH")
def test_the_lines_of_the_runbook_make_a_cluster_that_releases_and_that_nobody_else_can_use(tmp_path):
    certificates, scheduler, worker, routes = documented()
    tls = tmp_path / "tls"
    tls.mkdir()
    subprocess.run(["bash", "-euc", certificates], cwd=tls, check=True, capture_output=True, timeout=60)
    assert {file.name for file in tls.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in tls.iterdir()} == {0o600}

    port, pages = free_port(), free_port()
    scheduler = scheduler.replace("8786", str(port)).replace("127.0.0.1:8787", f"127.0.0.1:{pages}")
    worker = worker.replace("scheduler.example.org:8786", f"127.0.0.1:{port}").replace("8GiB", "1GiB")
    path = support.prepare(tmp_path).path
    section = f'kind = "address"\naddress = "tls://127.0.0.1:{port}"\n' + "".join(
        f'tls_{key} = "file:{tls}/{name}.pem"\n'
        for key, name in (("ca_file", "ca"), ("client_cert", "cert"), ("client_key", "key"))
    )
    text = path.read_text().replace('kind = "threads"', section)
    path.write_text(text.replace("[compute]", "[compute]\nmemory_gib = 1"))
    loaded = load_config(path)
    with ExitStack() as stack:
        stack.enter_context(running(scheduler, tls, routes))
        stack.enter_context(running(worker, tls, routes))
        with open_compute(loaded) as compute:
            known = compute._client.scheduler_info(n_workers=-1)
            addresses = [known["address"], *known["workers"], *(w["nanny"] for w in known["workers"].values())]
            assert all(address.startswith("tls://") for address in addresses)
            with stranger() as asking:
                assert asking.dask(addresses) == dict.fromkeys(addresses, REFUSAL)
            outcome = run_release(make_plan(loaded, NIGHT), compute, "test", lambda *_: None)
        served = [known["services"]["dashboard"], *(w["services"]["dashboard"] for w in known["workers"].values())]
        assert served[0] == pages
        for page in ("status", "info/main/workers.html", "json/counts.json", "metrics", "health", ""):
            for number in served:
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(f"http://127.0.0.1:{number}/{page}", timeout=10)
    assert outcome.path.exists()
