"""What there is to tell is decided by states of now, told once by all who start runs, and again until it was sent."""

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.states import (
    AwaitingConcurrencySlot,
    AwaitingRetry,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Pending,
    Running,
    Scheduled,
    Suspended,
)

from blockveil.flows.runs.steps import TRIED_AGAIN
from blockveil.flows.service import alarms, automations, runner
from blockveil.pipeline.base.errors import StoreError, StoreUnreachable
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.ledger import State
from blockveil.pipeline.ledger.database import Unreachable
from tests.house import support

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "UTC"
mode = "release"
missed_nights = "latest"

[alerts]
notify = ["webhook/on-call", "mail/on-call"]
late_minutes = 15
"""
AT = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
RELEASE = "people/covariance/2026-11-20"
BOTH = {"webhook/on-call", "mail/on-call"}


class Site:
    """A server with runs and the alarms that it knows, a ledger, and those who start runs and tell."""

    def __init__(self, folder, monkeypatch):
        support.prepare(folder)
        (folder / "deployments.toml").write_text(NIGHT)
        self.loaded = load_deployments(folder)
        self.deployment = SimpleNamespace(id=uuid4(), created=AT - timedelta(hours=5), paused=False)
        self.runs, self.charges, self.paused, self.events, self.taken, self.alive = [], {}, [], [], False, 0
        self.is_busy, self.deaf, self.is_deployed = False, set(), True
        monkeypatch.setattr(alarms, "get_client", self.client)
        monkeypatch.setattr(alarms.revival, "deployed_nights", self.deployed)
        monkeypatch.setattr(alarms.revival, "is_active", lambda deployment: not deployment.paused)
        monkeypatch.setattr(alarms, "shown_deployments", lambda *_: {"release/people": self.deployment})
        monkeypatch.setattr(alarms, "pages", self.pages)
        monkeypatch.setattr(alarms.catch_up, "charges_of", self.charges_of)
        monkeypatch.setattr(alarms.turns, "take", lambda *_: None if self.taken else uuid4())
        monkeypatch.setattr(alarms.turns, "give_back", lambda *_: None)
        monkeypatch.setattr(automations, "emit", self.emit)
        monkeypatch.setattr(automations, "told", self.told)
        self.teller = self.another()

    def another(self, began=AT - timedelta(days=1)):
        """Another worker, or the service after a restart."""
        return alarms.Alarms(self.loaded, began)

    def declares(self, share):
        """Nights learn, and declare how many records may be shortened."""
        path = self.loaded.root / "people.toml"
        learns = f'origin = "midpoint"\nlearn = "correlation"\nclipped_share_at_most = {share}'
        path.write_text(path.read_text().replace('origin = "midpoint"', learns))
        self.loaded = load_deployments(self.loaded.root)
        self.teller = self.another()

    def client(self, **_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def pause_deployment(self, number):
        self.paused.append(number)

    def deployed(self, *_):
        return [(self.loaded.deployments.night[0], self.deployment)] if self.is_deployed else []

    def pages(self, client, asked, pool=None):
        types = None if asked.state is None else asked.state.type.any_
        return [run for run in self.runs if types is None or run.state.type in types]

    def charges_of(self, *_):
        if self.charges is None:
            raise Unreachable("is away")
        return self.charges

    def emit(self, client, event, about, now, recipient="", message="", run=None):
        if event == automations.ALIVE:
            self.alive += 1
            return
        self.events.append((about, recipient, now, self.is_busy, message))

    def told(self, client, about, now):
        return [
            automations.Told(to, at, to not in self.deaf)
            for key, to, at, lost, _ in self.events
            if key == about and not lost
        ]

    def run(self, state, name="of the night", run_count=1, start=AT, mode="release"):
        run = SimpleNamespace(
            id=uuid4(), name=name, state=state, state_name=state.name, run_count=run_count, expected_start_time=start,
            parameters={"mode": mode}, deployment_id=self.deployment.id,
        )  # fmt: skip
        self.runs.append(run)
        return run

    def becomes(self, run, state):
        run.state, run.state_name = state, state.name

    def at(self, minutes, teller=None):
        """The messages that are told so many minutes after the time of the night, each with all who are told it."""
        before = len(self.events)
        (teller or self.teller).tell(AT + timedelta(minutes=minutes))
        new = self.events[before:]
        return {message: {to for _, to, _, _, other in new if other == message} for *_, message in new}


@pytest.fixture
def site(tmp_path, monkeypatch):
    return Site(tmp_path, monkeypatch)


class TestWhatIsTold:
    @pytest.fixture(autouse=True)
    def no_night_is_due(self, site):
        site.deployment.paused = True

    @pytest.mark.parametrize("name", ["BadData", "NotReviewed", "BudgetExhausted", "LedgerDamaged", "Crashed"])
    def test_a_run_that_has_failed_is_told_of_at_once_in_the_words_of_its_state(self, site, name):
        state = Crashed(message="Why") if name == "Crashed" else Failed(name=name, message="Why")
        site.run(state, mode="dry-run")
        assert site.at(0) == {f"of the night: {name}. Why": BOTH}

    def test_a_failure_that_passes_is_told_of_once_for_each_try_whatever_became_of_the_run_meanwhile(self, site):
        run = site.run(Failed(name="LedgerProblem", message=f"Away. {TRIED_AGAIN} 30 s."))
        assert len(site.at(0)) == 1
        site.becomes(run, alarms.revival.outlook(site.loaded, site.loaded.deployments.night[0], run, AT))
        assert run.state.name == "AwaitingRetry"
        assert site.at(1) == {}
        run.run_count = 2
        [(message, to)] = site.at(2).items()
        assert TRIED_AGAIN in message
        assert "Away." in message
        assert to == BOTH

    def test_a_death_that_is_tried_again_is_nothing_to_tell_of(self, site):
        site.run(AwaitingRetry(scheduled_time=AT + timedelta(hours=1), message="Its process died (1 of 6 tries)."))
        assert site.at(0) == {}

    def test_a_run_that_waits_for_a_person_is_told_of_once_for_each_time_that_it_waits(self, site):
        run = site.run(Suspended(timeout_seconds=9, message="A question"), mode="dry-run")
        assert site.at(0) == {"of the night: Suspended. A question": BOTH}
        assert site.at(60) == {}
        site.becomes(run, Suspended(timeout_seconds=9, message="Another"))
        assert site.at(61) == {"of the night: Suspended. Another": BOTH}

    @pytest.mark.parametrize(
        "state",
        [
            Scheduled(name="Late", scheduled_time=AT),
            AwaitingConcurrencySlot(scheduled_time=AT + timedelta(hours=9)),
            Pending(timestamp=AT),
            AwaitingRetry(scheduled_time=AT),
        ],
        ids=lambda state: state.name,
    )
    def test_a_run_that_does_not_start_in_time_is_told_of_once_and_not_right_after_a_machine_has_slept(
        self, site, state
    ):
        site.run(state, run_count=int(state.name == "AwaitingRetry"), mode="dry-run")
        assert site.at(14) == {}
        assert site.at(15) == {}, "it looks twice"
        [message] = site.at(16)
        assert message.startswith("Not started within 15 min: of the night: ")
        assert site.at(60) == {}

    def test_a_run_that_is_due_later_is_not_late(self, site):
        site.run(AwaitingRetry(scheduled_time=AT + timedelta(hours=2)), mode="dry-run")
        assert site.at(30) == site.at(31) == {}

    @pytest.mark.parametrize("left, low", [(6, True), (7, False)])
    def test_a_budget_that_is_nearly_spent_is_told_of_after_each_release(self, site, monkeypatch, left, low):
        monkeypatch.setattr(alarms.budgets, "nights_left", lambda *_: left)
        site.charges = {AT.date(): State.RELEASED}
        text = f"The budget of 'people' holds {left} more nights like {RELEASE}."
        assert site.at(1) == ({text: BOTH} if low else {})
        assert site.at(2) == {}
        assert site.at(3, site.another()) == {}
        site.charges[AT.date() + timedelta(days=1)] = State.RELEASED
        site.teller._low.clear()  # as where the ledger has booked it
        assert len(site.at(24 * 60)) == low

    def test_a_budget_of_which_nothing_was_released_is_not_nearly_spent(self, site, monkeypatch):
        monkeypatch.setattr(alarms.budgets, "nights_left", lambda *_: 0)
        assert site.at(1) == {}

    def test_a_release_that_shortened_more_records_than_declared_is_told_of_once(self, site, monkeypatch):
        shares, opened = {AT.date(): 0.08, AT.date() + timedelta(days=1): 0.04}, []
        site.declares(0.05)
        site.charges = {AT.date(): State.RELEASED}
        monkeypatch.setattr(alarms.budgets, "nights_left", lambda *_: 99)

        def open_release(pointer):
            opened.append(pointer)
            share = shares[date.fromisoformat(pointer.stem)]
            stated = {"clipped_share_at_most": 0.05, "clipped_share": share, "clipped_share_standard_deviation": 0.01}
            return SimpleNamespace(attributes={"learned": stated})

        monkeypatch.setattr(alarms, "open_release", open_release)
        [(message, to)] = site.at(1).items()
        assert message.startswith(f"{RELEASE}: The learned ellipsoid shortened 8 % of the records")
        assert to == BOTH
        assert site.at(2) == {}
        assert opened == [site.loaded.configs["people"].output_root / f"{RELEASE}.json"]
        assert site.at(3, site.another()) == {}
        site.charges[AT.date() + timedelta(days=1)] = State.RELEASED
        assert site.at(24 * 60) == {}
        assert len(opened) == 3

    @pytest.mark.parametrize(("passes", "tries"), [(False, 1), (True, 3)])
    def test_a_release_that_cannot_be_read_is_looked_at_again_where_that_may_pass(
        self, site, monkeypatch, passes, tries
    ):
        opened = []

        def open_release(pointer):
            opened.append(pointer)
            raise (StoreUnreachable if passes else StoreError)("It", "is not", "there")

        site.declares(0.05)
        site.charges = {AT.date(): State.RELEASED}
        monkeypatch.setattr(alarms.budgets, "nights_left", lambda *_: 99)
        monkeypatch.setattr(alarms, "open_release", open_release)
        assert site.at(1) == site.at(2) == site.at(3) == {}
        assert len(opened) == tries

    def test_no_release_is_read_where_no_share_is_declared(self, site, monkeypatch):
        site.charges = {AT.date(): State.RELEASED}
        monkeypatch.setattr(alarms.budgets, "nights_left", lambda *_: 99)
        monkeypatch.setattr(alarms, "open_release", lambda _: pytest.fail("it is read"))
        assert site.at(1) == {}

    def test_a_ledger_that_is_away_holds_back_no_other_alarm(self, site):
        site.charges = None
        site.run(Failed(name="BadData", message="Why"), mode="dry-run")
        assert len(site.at(30)) == 1
        site.deployment.paused = False
        assert site.at(31) == {}
        site.charges = {}
        assert len(site.at(32)) == 1, "the release is missing"


class TestHowItIsTold:
    def test_of_several_workers_one_tells_and_neither_another_nor_a_restart_tells_again(self, site):
        site.run(Crashed(message="Why"))
        other = site.another()
        site.taken = True
        assert site.at(0) == {}
        site.taken = False
        assert len(site.at(0)) == 1
        for teller in (other, site.another(), site.teller):
            assert site.at(1, teller) == {}
        assert len(site.events) == 2

    def test_an_alarm_that_a_busy_server_loses_is_told_again_with_growing_waits(self, site):
        site.run(Crashed(message="Why"))
        site.is_busy = True
        told = [minutes for minutes in range(14) if site.at(minutes)]
        assert told == [0, 2, 6]
        site.is_busy = False
        assert len(site.at(14)) == 1
        assert site.at(14.5) == {}

    def test_an_alarm_is_told_until_it_is_sent_although_its_run_is_tried_again_meanwhile(self, site):
        run = site.run(Failed(name="LedgerProblem", message=f"Away. {TRIED_AGAIN} 30 s."))
        site.is_busy = True
        assert site.at(0)
        site.is_busy = False
        site.becomes(run, Running())
        assert len(site.at(2)) == 1

    def test_who_was_sent_it_is_not_told_again_because_another_was_not(self, site):
        site.run(Crashed(message="Why"))
        site.deaf = {"mail/on-call"}
        assert site.at(0)
        assert list(site.at(2).values()) == [{"mail/on-call"}]
        site.deaf = set()
        assert site.at(3) == {}

    def test_the_server_hears_a_few_times_within_what_is_late_that_somebody_starts_runs(self, site):
        for minute in range(16):
            site.at(minute)
        assert site.alive == 4


class TestWhatIsPaused:
    @pytest.mark.parametrize("name", ["BudgetExhausted", "LedgerDamaged"])
    @pytest.mark.parametrize("notify", [True, False])
    def test_nights_are_paused_once_so_that_a_person_who_resumes_them_has_the_last_word(
        self, site, monkeypatch, name, notify
    ):
        if not notify:
            monkeypatch.setattr(automations, "recipients", lambda _: [""])
        site.run(Failed(name=name, message="Why"))
        site.at(0)
        assert site.paused == [site.deployment.id]
        for teller in (site.teller, site.another()):
            site.at(1, teller)
            site.at(9, teller)
        assert site.paused == [site.deployment.id]
        site.run(Failed(name=name, message="Why"), name="the next")
        site.at(10)
        assert site.paused == [site.deployment.id] * 2

    def test_other_failures_pause_nothing(self, site):
        site.run(Failed(name="BadData", message="Why"))
        site.at(0)
        assert site.paused == []


class TestWhatIsMissing:
    """Judged by schedule and ledger, whatever the server has or lacks."""

    def missing(self, site, minutes):
        return [text for text in site.at(minutes) if text.startswith(f"{RELEASE} is not released. ")]

    @pytest.mark.parametrize(
        "state",
        [Suspended(timeout_seconds=9), Failed(name="BadData", message="A chunk"), Crashed(), Scheduled(), None,
         Cancelled(message=runner.STOPPED)],
        ids=lambda state: getattr(state, "name", "no run"),
    )  # fmt: skip
    def test_a_release_is_missing_while_nothing_works_at_it_once_it_is_late(self, site, state):
        if state is not None:
            site.run(state)
        assert not self.missing(site, 14)
        [message] = self.missing(site, 15)
        assert "no run" in message if state is None else state.name in message
        assert not self.missing(site, 60)

    @pytest.mark.parametrize("state", [Running(), AwaitingRetry()], ids=lambda state: state.name)
    def test_a_night_at_work_is_missing_only_when_a_newer_one_is_due(self, site, state):
        site.run(state)
        assert not self.missing(site, 15)
        assert not self.missing(site, 20 * 60)
        assert self.missing(site, 24 * 60 + 1)

    @pytest.mark.parametrize("state", [Completed(name="Skipped"), Cancelled()], ids=lambda state: state.name)
    def test_a_night_that_the_policy_skipped_or_a_person_gave_up_is_not(self, site, state):
        site.run(state)
        assert not self.missing(site, 15)

    def test_a_night_that_is_released_or_paused_or_older_than_the_service_and_nobody_s_is_not(self, site):
        site.charges = {AT.date(): State.RELEASED}
        assert not self.missing(site, 15)
        site.charges, site.teller = {}, site.another()
        site.deployment.paused = True
        assert not self.missing(site, 15)
        site.deployment.paused, site.teller = False, site.another(began=AT + timedelta(minutes=1))
        assert not self.missing(site, 30)

    def test_a_night_whose_deployment_somebody_deletes_is(self, site):
        site.is_deployed = False
        assert self.missing(site, 15)
