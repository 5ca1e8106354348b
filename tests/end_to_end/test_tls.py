"""A Prefect server behind a proxy with TLS, with a password: worker, command line and browser, all over the proxy."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blockveil.flows.service.server import ServerFailed
from tests.end_to_end.served import COMMAND, deploy, server_alone
from tests.end_to_end.test_serve import entries, site
from tests.house import browser, certificates
from tests.house.tls_proxy import TlsProxy

BIN = Path(sys.executable).parent
PASSWORD = "ops:a password of the team"


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A folder that was deployed to a server behind a proxy: its config, the proxy, and the environment of a client."""
    folder = tmp_path_factory.mktemp("behind")
    loaded = site(folder)
    tls = certificates.make(folder / "tls")
    with TlsProxy(tls) as proxy:
        settings = {
            "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
            "PREFECT_UI_API_URL": f"{proxy.url}/api",
        }
        with server_alone(folder / "home", **settings) as served:
            proxy.target = int(served.url.rpartition(":")[2])
            client = {
                **os.environ,
                "PREFECT_HOME": str(folder / "client"),
                "PREFECT_API_URL": f"{proxy.url}/api",
                "PREFECT_API_SSL_CERT_FILE": str(tls / "authority.pem"),
                "PREFECT_API_AUTH_STRING": PASSWORD,
                "PREFECT_WORKER_QUERY_SECONDS": "2",
            }
            done = deploy(folder, proxy.url, PASSWORD, PREFECT_API_SSL_CERT_FILE=client["PREFECT_API_SSL_CERT_FILE"])
            assert "release/people" in done.output
            yield loaded, proxy, client


def tool(environment, *words):
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_releases_a_night_over_tls_and_who_does_not_know_authority_or_password_is_refused(behind, tmp_path):
    loaded, proxy, client = behind
    with pytest.raises(ServerFailed, match="a certificate that nobody known here has signed") as unknown:
        deploy(loaded.base, proxy.url, PASSWORD)
    authority = {"PREFECT_API_SSL_CERT_FILE": client["PREFECT_API_SSL_CERT_FILE"]}
    with pytest.raises(ServerFailed, match="asks for a password") as stranger:
        deploy(loaded.base, proxy.url, "ops:guessed", **authority)
    assert unknown.value.exit_code == stranger.value.exit_code == 8
    with (
        (tmp_path / "worker.log").open("wb") as log,
        subprocess.Popen(
            [*COMMAND, "service", "worker", str(loaded.base)],
            env=client,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as worker,
    ):
        try:
            run = ("deployment", "run", "release/people", "-p", "logical_date=2026-11-20", "--watch")
            done = tool(client, str(BIN / "prefect"), *run)
            assert "Completed" in done.stdout, done.stdout + done.stderr + (tmp_path / "worker.log").read_text()[-3000:]
        finally:
            worker.send_signal(signal.SIGINT)
            worker.wait(300)
    assert entries(loaded) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    for text in (str(unknown.value), str(stranger.value), (tmp_path / "worker.log").read_text()):
        assert "a password of the team" not in text


@pytest.mark.slow
@browser.needed
def test_a_browser_logs_in_over_tls_and_asks_nothing_but_the_proxy(behind):
    _, proxy, _ = behind
    with browser.chromium() as chromium:
        page = chromium.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(90_000)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{proxy.url}/deployments")
        page.locator("input").first.fill(PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_text("by-hand").first.wait_for()
    assert any("/api/deployments" in url for url in asked)
    assert [url for url in asked if not url.startswith((proxy.url, "data:", "blob:"))] == []
