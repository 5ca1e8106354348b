"""One night, start to end: the order of its steps, and one try to take them.

The order is the guarantee::

    reserve budget -> exact sum (nothing drawn) -> key -> commit -> noise -> stage -> publish -> destroy key -> released

* Before *commit* nothing has been drawn: any failure voids the reservation and costs nothing.
* After *commit* the charge stands for ever. A re-run finds the same key, draws the same bits and costs nothing more.

What each step does to the charge, the key and the release is in :mod:`.charged_steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from blockveil.pipeline.base import interrupts
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases import charged_steps, destination
from blockveil.pipeline.releases.charged_steps import Books, Outcome, Reservation
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.order import OrderedStep, Result, StepRunner, once
from blockveil.pipeline.releases.publishing import Published, Staged
from blockveil.pipeline.releases.training_steps import Hear, unheard


class Attempt:
    """One try to make a release. However it ends, nothing of it stays reserved, and nothing unfinished beside releases.

    The steps are called in the order of :data:`ORDER` inside a ``with`` block. What ends it early, an interrupt too, is
    raised on.

    Parameters
    ----------
    plan, ledger
        The release, and the ledger that its config names.
    name
        Name of this attempt, for the ledger's record.
    compute
        Opens what runs the graph, for the time of the measurement.
    tell
        Receives progress in the user's words.
    hear
        Receives what is public of the steps of a training so far.
    """

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        name: str,
        compute: Callable[[], AbstractContextManager[Compute]],
        tell: Tell,
        hear: Hear = unheard,
    ) -> None:
        self.plan, self.books = plan, Books(plan.loaded, ledger)
        self._name, self._compute, self.tell, self._hear = name, compute, tell, hear
        self._reservation: Reservation | None = None
        self._staged: Staged | None = None
        self._published: Published | None = None
        self._outcome: Outcome | None = None
        self._settled = False

    def reserve(self) -> None:
        """Hold the budget; as :func:`.charged_steps.reserve`."""
        self.tell("reserving the budget", None)
        self._reservation = charged_steps.reserve(self.plan, self.books, self._name)
        self._published = self._reservation.published
        if self._reservation.resumed:
            self.tell(self._reservation.resumed, None)

    def is_unpublished(self) -> bool:
        """Whether neither this attempt nor an earlier one has published the release."""
        return self._published is None

    def is_sent(self) -> bool:
        """Whether readers find its releases in an object store."""
        return self.plan.config.output.upload is not None

    def measure(self) -> None:
        """Compute, commit, draw and stage; as :func:`.charged_steps.measure`. May be tried again."""
        self.tell("starting workers", None)
        with self._compute() as compute:
            self._staged = charged_steps.measure(
                self.plan, self.books, _reached(self._reservation), compute, self.tell, self._hear
            )

    def publish(self) -> None:
        """Make the release visible; as :func:`.charged_steps.publish`."""
        self.tell("publishing", None)
        self._published = charged_steps.publish(self.plan, _reached(self._staged))

    def upload(self) -> None:
        """Send what this or an earlier attempt published; as :func:`.destination.send`. May be tried again."""
        destination.send(self.plan.loaded, _reached(self._published), self.tell)

    def seal(self) -> None:
        """Mark the charge of what this or an earlier attempt published as released; as :func:`.charged_steps.seal`."""
        self.tell("sealing", None)
        self._outcome = charged_steps.seal(self.books, _reached(self._reservation), _reached(self._published))
        self._settled = True

    @property
    def outcome(self) -> Outcome:
        """The finished release."""
        return _reached(self._outcome)

    def abandon(self, reason: str) -> bool | None:
        """Give the budget back if nothing was drawn.

        Returns
        -------
        Whether the charge is void, or None where the attempt had reserved nothing.
        """
        if self._reservation is None:
            self._give_back_unseen(reason)
            voided = None
        else:
            voided = charged_steps.abandon(self.books, self._reservation, reason)
        self._settled = True
        return voided

    def __enter__(self) -> Attempt:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give back what is held and remove what is unfinished, where the attempt did not come to its end."""
        if kind is not None and not self._settled:
            interrupts.to_the_end(lambda: self.abandon(kind.__name__))
        if self._staged is not None:
            self._staged.held.discard()

    def _give_back_unseen(self, reason: str) -> None:
        """Give back what this attempt reserved if it ended between the ledger's entry and the answer."""
        ledger = self.books.ledger
        for entry in ledger.history(release_id=self.plan.release_id):
            if entry.kind == State.RESERVED and entry.payload["attempt"] == self._name:
                ledger.void_if_reserved(str(entry.charge_id), reason)


def _reached(found: Result | None) -> Result:
    if found is None:
        raise RuntimeError("the steps of a release are taken in their order")
    return found


ORDER: tuple[OrderedStep[Attempt], ...] = (
    OrderedStep("reserve budget", Attempt.reserve),
    OrderedStep("measure and add noise", Attempt.measure, retries=2, due=Attempt.is_unpublished),
    OrderedStep("publish", Attempt.publish, due=Attempt.is_unpublished),
    OrderedStep("upload", Attempt.upload, retries=2, due=Attempt.is_sent),
    OrderedStep("seal", Attempt.seal),
)
"""The steps of a release, whoever runs them."""


def walk(attempt: Attempt, run: StepRunner) -> Outcome:
    """Take the steps of a release in their order, and leave nothing reserved where one fails.

    Raises
    ------
    BaseException
        What a step or its runner raised; the budget is given back where nothing was drawn.
    """
    with attempt:
        for step in ORDER:
            if step.due(attempt):
                run(step.name, partial(step.work, attempt), step.retries)
    return attempt.outcome


def run_release(plan: Plan, compute: Compute, attempt: str, tell: Tell) -> Outcome:
    """Run a whole release, or finish one that an earlier attempt began, with what is open to compute it.

    Parameters
    ----------
    plan
        The release.
    compute
        Runs the graph; it is not opened again where it is lost.
    attempt
        Name of this attempt, for the ledger's record.
    tell
        Receives progress in the user's words.

    Raises
    ------
    BlockveilError
        With what to change; the budget is given back where nothing was drawn.
    """
    ledger = Ledger(plan.loaded.ledger_url)
    return walk(Attempt(as_begun(plan, ledger), ledger, attempt, lambda: nullcontext(compute), tell), once)
