"""A person on call, in a real browser, before a real server: form, approval, run page, an exhausted budget."""

import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import PATIENCE, kill_all, serve
from tests.house import browser, support

pytestmark = [browser.needed, pytest.mark.slow]

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two configs of one data set, whose budget holds one release; one of them asks a person first."""
    folder = tmp_path_factory.mktemp("site")
    loaded = support.prepare(folder, budget=1.1)
    asks = loaded.path.read_text().replace('name = "covariance"', 'name = "asked"')
    (folder / "asks.toml").write_text(asks + "\n[approval]\nthreshold_share = 0.5\n")
    (folder / "deployments.toml").write_text(NIGHT)
    with serve(folder, folder / "home", PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        served.ledger = Ledger(loaded.ledger_url)
        yield served


@pytest.fixture(scope="module")
def page(site):
    """A page of a browser that is logged in, and every outside address that it asked for."""
    with browser.chromium() as chromium:
        page = chromium.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(90_000)  # a machine may be busy
        page.outside = []
        inside = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        page.on("request", lambda asked: asked.url.startswith(inside) or page.outside.append(asked.url))
        log_in(site, page)
        yield page


def log_in(site, page):
    """Type the login into the first page that the server shows to somebody whom it does not know."""
    page.goto(site.url)
    page.get_by_role("heading", name="Login").wait_for()
    keep(page, "login")
    page.locator("input").fill(site.login)
    page.get_by_role("button", name="Login").click()
    page.wait_for_url(re.compile("/dashboard"))


def test_the_first_page_asks_for_the_login_and_shows_nothing_to_who_does_not_know_it(site, page):
    context = page.context.browser.new_context()
    context.set_default_timeout(90_000)  # a machine may be busy
    stranger = context.new_page()
    answers = []
    stranger.on("response", lambda answer: answers.append((answer.status, answer.url)))
    stranger.goto(f"{site.url}/deployments")
    stranger.get_by_role("heading", name="Login").wait_for()
    stranger.locator("input").fill("blockveil:guessed")
    stranger.get_by_role("button", name="Login").click()
    stranger.get_by_text("Authentication failed").first.wait_for()
    assert "by-hand" not in stranger.content()
    assert {status for status, url in answers if "/api/" in url} == {401}
    context.close()
    page.goto(f"{site.url}/deployments")
    page.get_by_text("by-hand").first.wait_for()


def choose(page, field, text, within="body"):
    """Pick from a list of the form: a click on the control would count twice, for itself and for its label."""
    page.locator(f"{within} .p-select-button__control").nth(field).focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("option").get_by_text(text, exact=True).click()


def keep(page, name):
    """Picture for the documents, where a person asks for them."""
    folder = os.environ.get("BLOCKVEIL_SCREENSHOTS")
    if folder:
        page.wait_for_timeout(3000)  # what appears slowly is there then
        page.screenshot(path=f"{folder}/{name}.png")


def send(page):
    """Press Submit; again where the server's SQLite database was busy, which the page passes over in silence."""
    with page.expect_response(re.compile("/create_flow_run$")) as answer:
        page.get_by_role("button", name="Submit").click()
    if answer.value.status == 503:
        time.sleep(1)
        send(page)


def submit(site, page, config):
    """Fill the form of the release flow and send it; the run."""
    deployment = site.deployment("release/by-hand")
    page.goto(f"{site.url}/deployments/deployment/{deployment}/run")
    page.get_by_text("Name of a reviewed config").wait_for()
    choose(page, 0, config)
    choose(page, 1, "release")
    keep(page, "form")
    known = {run["id"] for run in runs(site, deployment)}
    send(page)
    page.wait_for_url(re.compile(f"/deployments/deployment/{deployment}$"))
    (made,) = (run["id"] for run in runs(site, deployment) if run["id"] not in known)
    return made


def runs(site, deployment):
    return site.ask("/flow_runs/filter", {"flow_runs": {"deployment_id": {"any_": [deployment]}}})


def test_the_form_refuses_a_release_without_a_config_and_offers_reviewed_ones_alone(site, page):
    deployment = site.deployment("release/by-hand")
    page.goto(f"{site.url}/deployments/deployment/{deployment}/run")
    page.get_by_text("A dry run plans and spends nothing").wait_for()
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("'release' is a required property").wait_for()
    page.locator(".p-select-button__control").first.focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("option").all_inner_texts() == ["asks", "people"]
    assert runs(site, deployment) == []


def test_a_release_waits_for_a_person_who_approves_it_in_the_browser_and_then_the_budget_is_spent(site, page):
    run = submit(site, page, "asks")
    site.state(run, "Suspended")
    assert [entry.kind for entry in site.ledger.history()] == ["BUDGET"], "nothing is held while it waits"
    page.goto(f"{site.url}/runs/flow-run/{run}")
    page.get_by_role("button", name="Resume").click()
    page.locator(".p-modal").get_by_text("above 50 % of that a person decides").wait_for()
    keep(page, "approval")
    choose(page, 0, "approve", within=".p-modal")
    page.locator(".p-modal textarea").fill("Ada on call")
    page.locator(".p-modal").get_by_role("button", name="Submit").click()
    state = site.state(run)
    assert state["type"] == "COMPLETED", state
    (reserved,) = (entry for entry in site.ledger.history() if entry.kind == "RESERVED")
    assert reserved.payload["attempt"].endswith("approved by Ada on call")

    page.goto(f"{site.url}/runs/flow-run/{run}")
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text(re.compile("summary", re.IGNORECASE)).first.wait_for()
    keep(page, "run")
    page.get_by_text(re.compile(r"people/asked/\S+: done")).first.wait_for()
    open_every_artifact(site, page, run)
    spent = site.ledger.budget("people").spent_mu

    state = site.state(submit(site, page, "people"))
    assert state["name"] == "BudgetExhausted"
    page.goto(f"{site.url}/runs/flow-run/{state['state_details']['flow_run_id']}")
    page.get_by_text("Nothing was spent").first.wait_for()
    assert site.ledger.budget("people").spent_mu == spent


def open_every_artifact(site, page, run):
    """Each is shown, and each picture of it is drawn."""
    found = site.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    assert {each["key"] for each in found} == {
        "summary", "what-it-costs", "where-it-stands", "what-is-promised", "what-stands-out",
        "what-each-feature-says", "what-is-left", "what-it-does-not-cover", "guarantee-in-numbers", "origin",
        "where-all-releases-are",
    }  # fmt: skip
    for each in found:
        page.goto(f"{site.url}/artifacts/artifact/{each['id']}")
        page.get_by_text(each["description"], exact=True).first.wait_for()
        pictures = page.locator("img[src^='data:image']")
        if "](data:image" in str(each["data"]):
            pictures.first.wait_for()
            assert all(pictures.evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 100)"))


def test_a_night_that_an_alarm_paused_is_resumed_with_the_switch_beside_its_schedules(site, page):
    deployment = site.deployment("release/people")

    def paused():
        return site.ask(f"/deployments/{deployment}")["paused"]

    site.post(f"/deployments/{deployment}/pause_deployment")
    assert paused()
    page.goto(f"{site.url}/deployments/deployment/{deployment}")
    page.get_by_text("At 02:30 AM every day").first.wait_for()
    page.locator(".p-toggle").first.click()  # the second is the schedule's own
    site.wait(lambda: not paused(), "the switch did not resume it")


def ask_what_if(site, page, epsilon="1", replaced=("", "")):
    """Change an answer of the plan flow's form, which holds those of the reviewed config, and send it."""
    page.goto(f"{site.url}/deployments/deployment/{site.deployment('plan/people')}/run")
    page.get_by_text("how far one unit may move the odds").wait_for()
    page.wait_for_function("document.querySelector('input[type=number]').value === '1'")
    page.locator("input[type=number]").first.fill(epsilon)
    for box in page.locator("textarea.p-code-input__textarea").all():
        box.fill(box.input_value().replace(*replaced))
    send(page)


def test_a_what_if_question_is_asked_in_the_form_and_spends_nothing(site, page):
    deployment, before = site.deployment("plan/people"), site.ledger.head()

    ask_what_if(site, page, epsilon="-1")
    page.get_by_text("-1 is less than or equal to the minimum of 0").first.wait_for()
    ask_what_if(site, page, replaced=("shaped-gaussian", "magic"))
    page.get_by_text("Validation failed for field 'question.mechanism'").first.wait_for()
    assert runs(site, deployment) == []

    ask_what_if(site, page, replaced=('"upper": 120', '"upper": -5'))  # no form can compare two of its fields
    (refused,) = site.wait(lambda: runs(site, deployment), "no run was made")
    assert site.state(refused["id"])["name"] == "BadConfig"
    page.goto(f"{site.url}/runs/flow-run/{refused['id']}")
    page.get_by_text('lower: 0.0 with upper = -5.0 (feature "age"). lower must be below upper.').first.wait_for()
    page.get_by_text("Nothing was read, charged or released.").first.wait_for()

    ask_what_if(site, page, epsilon="0.5")
    made = site.wait(lambda: runs(site, deployment)[1:] and runs(site, deployment), "no second run was made")
    (run,) = (each["id"] for each in made if each["id"] != refused["id"])
    assert site.state(run)["type"] == "COMPLETED"
    page.goto(f"{site.url}/runs/flow-run/{run}")
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text("what-if", exact=True).last.click()
    page.get_by_text("What if: people/covariance/").first.wait_for()
    page.get_by_text(re.compile(r"at most e\^0\.5 ")).first.wait_for()
    keep(page, "what-if")
    assert site.ledger.head() == before


@pytest.mark.timeout(900)
def test_a_night_that_lost_its_machine_is_finished_at_the_next_start_and_its_pages_say_so(tmp_path, page):
    loaded, home = support.prepare(tmp_path), tmp_path / "home"
    (tmp_path / "deployments.toml").write_text(NIGHT)

    def entries():
        return [entry.kind for entry in Ledger(loaded.ledger_url).history()]

    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        run = served.run("release/people", release="people", mode="release", logical_date="2026-11-20")
        end = time.monotonic() + PATIENCE
        while "RESERVED" not in entries():  # by now it has its turn
            assert time.monotonic() < end, served.log.read_text()
            time.sleep(0.01)
        kill_all(served.process)
    assert "RELEASED" not in entries(), "it was too fast for this test"
    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        name = served.ask(f"/flow_runs/{run}")["name"]
        assert f"{name}: Its process died (1 of 6 tries). It is tried again" in served.log.read_text()
        served.patience = 600.0  # it waits half a minute, and the turn of the dead process ends within two more
        served.wait(lambda: entries()[-1] == "RELEASED", "the night was not finished")
        assert "an earlier attempt" in served.state(run)["message"].lower()
        made = runs(served, served.deployment("release/people"))
        assert [each["id"] for each in made if each["state_type"] != "SCHEDULED"] == [run], "it is the same run"
        log_in(served, page)
        page.goto(f"{served.url}/runs/flow-run/{run}")
        page.get_by_text("Completed").first.wait_for()
    assert [kind for kind in entries() if kind != "VOID"] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


EVIL = """<script>
let opened = 0, closed = 0;
const messages = ['{"type":"auth","token":"\\u00e9"}', '{"type":"auth","token":"guessed"}'];
for (let number = 0; number < 20; number++) {
  const socket = new WebSocket('ws://ADDRESS/api/events/in', 'prefect');
  socket.onopen = () => { opened++; socket.send(messages[number % 2]); };
  socket.onclose = () => { closed++; document.title = `${opened} of ${closed}`; };
}
const show = text => () => { document.body.innerText = text; };
fetch('http://ADDRESS/ui-settings').then(show('read'), show('refused'));
</script><body></body>"""


class Page(BaseHTTPRequestHandler):
    """Shows the page of a stranger to whoever asks."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(EVIL.replace("ADDRESS", self.server.attacked).encode())

    def log_message(self, *_):
        """Log nothing."""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_address_opens_no_socket_of_the_server_and_fills_no_log(site, page, host):
    log = site.log.with_name("blockveil-server.log")
    before = log.stat().st_size
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as stranger:
        stranger.attacked = site.url.partition("//")[2]
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        context = page.context.browser.new_context()  # the other page is no part of what is watched
        evil = context.new_page()
        evil.goto(f"http://{host}:{stranger.server_port}/")
        evil.wait_for_function("document.title.endsWith('of 20')", timeout=90_000)
        evil.get_by_text("refused").wait_for()
        title = evil.title()
        context.close()
        stranger.shutdown()
    print(f"sockets opened by a page of {host}: {title}; bytes of log: {log.stat().st_size - before}")
    assert title == "0 of 20"
    assert log.stat().st_size == before


def test_no_page_made_the_browser_ask_another_host(page):
    assert page.outside == [], json.dumps(page.outside)
