"""Mistakes for the tests that guard promises: each is planted into the product, and its test must fail then.

``python -m tests.mutants [TEST...]`` runs all of them, or those of some tests, and prints which are found. A mistake is
a change of the source of one function, whose code is exchanged in place, so that every caller makes the mistake.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the test that finds it.

    Attributes
    ----------
    test
        The test, as pytest names it.
    where
        Module and function, such as ``blockveil.pipeline.releases.keys:KeyStore._wipe``.
    old, new
        Text that stands exactly once in the function's source, and what takes its place.
    among
        Words that choose among the parameters of the test; empty for all.
    """

    test: str
    where: str
    old: str
    new: str
    among: str = ""

    def source(self) -> tuple[Any, str]:
        """The function, and its source with the mistake.

        Raises
        ------
        LookupError
            The text is no longer there, exactly once.
        """
        module, _, path = self.where.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        function = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", None) or found)
        text = textwrap.dedent(inspect.getsource(function))
        if text.count(self.old) != 1:
            raise LookupError(f"{self.where} has {text.count(self.old)} times {self.old!r}")
        return function, text.replace(self.old, self.new)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product with the mistake, for the time of a block."""
        function, text = self.source()
        lines = text.splitlines(keepends=True)
        start = next(place for place, line in enumerate(lines) if line.startswith("def "))  # without its decorators
        space = dict[str, Any]()
        code = compile("".join(["from __future__ import annotations\n", *lines[start:]]), f"<{self.where}>", "exec")
        exec(code, function.__globals__, space)  # our own source
        whole = function.__code__
        function.__code__ = space[function.__name__].__code__
        try:
            yield
        finally:
            function.__code__ = whole


_QUANTISER = "tests/engine/records/test_quantiser.py::"
_GRAM = "tests/engine/answers/test_gram.py::"
_PROVED = "tests/engine/guarantees/test_proved_bounds.py::"
_GAUSSIAN = "tests/engine/mechanisms/test_gaussian_mechanism.py::"
_SAMPLER = "tests/engine/noise/test_published_sampler.py::"
_ATTAINED = "tests/engine/sensitivity/test_attained.py::"
_RELEASE = "tests/pipeline/releases/test_release.py::"
_SIGNED = "tests/pipeline/plan/test_signed_approval.py::"
_LOG_DELTA = "blockveil.engine.guarantees.calibration:gaussian_log_delta"
_LESS = ("exact = Fraction(mu) / 2 - ", "exact = Fraction(mu) / 2 - Fraction(1, 1000) - ")
_INTO = "blockveil.engine.records.quantiser:Quantiser.quantise_into"
_BY_NUMBER = (
    "copy_settled(records, values, self.stand_in)\n",
    "copy_settled(records, values, self.stand_in)\n    values *= 1 + len(records) % 7\n",
)
_RESERVE = ("blockveil.pipeline.ledger.ledger:Ledger.reserve", "if known.spec_digest != spec_digest:", "if False:")

MUTANTS = (
    Mutant(
        _QUANTISER + "test_the_bound_holds_on_the_integers_for_any_finite_record",
        "blockveil.engine.records.rounding:CubeGrid.bound",
        "np.minimum(values, self.highest, out=values)",
        "pass",
    ),
    Mutant(_QUANTISER + "test_a_record_alone_decides_its_integers", _INTO, *_BY_NUMBER),
    Mutant(
        "tests/engine/records/test_quantiser_limits.py::test_what_is_refused_would_have_left_its_bound",
        "blockveil.engine.records.dither:Dither.move",
        "values += ",
        "values += 0 * ",
    ),
    Mutant(
        _GRAM + "test_the_sum_equals_python_integers",
        "blockveil.engine.answers.float_sums:FloatTileSum.add",
        "symmetric(1.0, ",
        "symmetric(1.001, ",
    ),
    Mutant(
        _GRAM + "test_a_plan_that_could_overflow_is_refused",
        "blockveil.engine.answers.gram:check_no_overflow",
        "> 2**62:",
        "> 2**63:",
    ),
    Mutant(_GRAM + "test_random_chunkings_tilings_row_orders_and_schedulers_release_the_same_bits", _INTO, *_BY_NUMBER),
    Mutant(_RELEASE + "test_compute_settings_do_not_change_a_bit_of_the_release", _INTO, *_BY_NUMBER),
    Mutant(_PROVED + "test_a_calibrated_loss_keeps_its_promise_and_a_larger_one_does_not", _LOG_DELTA, *_LESS),
    Mutant(_PROVED + "test_a_stated_epsilon_is_kept_and_a_smaller_one_is_not", _LOG_DELTA, *_LESS),
    Mutant(_PROVED + "test_all_that_a_budget_lets_be_spent_keeps_its_promise", _LOG_DELTA, *_LESS),
    Mutant(
        _PROVED + "test_a_charge_is_never_booked_below_its_square",
        "blockveil.pipeline.budget.filter:Ticks.of",
        "math.ceil(Fraction(loss.mu)",
        "math.floor(Fraction(loss.mu)",
    ),
    Mutant(
        _GAUSSIAN + "test_rounding_to_the_grid_is_exact_and_to_the_nearest",
        "blockveil.engine.noise.design:add_noise",
        "quotient += remainder >= steps - remainder",
        "pass",
    ),
    Mutant(
        _GAUSSIAN + "test_the_deviation_is_the_analytic_gaussian_up_to_the_cost_of_rounding",
        "blockveil.engine.noise.additive:usable_mu",
        "return gaussian_mu(",
        "return 1.05 * gaussian_mu(",
    ),
    Mutant(
        _SAMPLER + "test_every_entry_of_the_table_is_the_true_probability_rounded_to_nearest",
        "blockveil.engine.noise.gaussian_table:_weights",
        "for n in range(1, 40):",
        "for n in range(1, 5):",
    ),
    Mutant(
        _SAMPLER + "test_a_draw_is_as_near_to_its_law_as_is_charged",
        "blockveil.engine.noise.gaussian_table:cumulative",
        "+ total)",
        "+ total + total * 2**50)",
    ),
    Mutant(
        _SAMPLER + "test_an_entry_that_is_off_by_one_is_refused",
        "tests.oracles.published_sampler:entries_that_are_wrong",
        "(2 * entry - 1) * least",
        "(2 * entry - 9) * least",
    ),
    Mutant(
        "tests/engine/noise/test_gaussian_table.py::"
        "test_a_draw_is_within_two_to_the_minus_ninety_of_the_discrete_gaussian",
        "blockveil.engine.noise.gaussian_table:cumulative",
        "+ total)",
        "+ total + total * 2**50)",
    ),
    Mutant(
        _ATTAINED + "test_of_second_moments",
        "blockveil.engine.sensitivity.problems:SecondMoment.l2",
        "weights = spread.rows**-2.0",
        "weights = 0.95 * spread.rows**-2.0",
    ),
    Mutant(
        _ATTAINED + "test_of_rows",
        "blockveil.engine.sensitivity.problems:Rows._within",
        "found, least = wider",
        "known = Sensitivity(0.95 * known.bound, 0.95 * known.bound)\n    found, least = wider",
    ),
    Mutant(
        _ATTAINED + "test_of_outer_products",
        "blockveil.engine.sensitivity.outer_problem:OuterProducts._within",
        "return known\n",
        "return Sensitivity(0.95 * known.bound, 0.95 * known.attained)\n",
    ),
    Mutant(
        _ATTAINED + "test_of_strategies",
        "blockveil.engine.mechanisms.counts.matrix_mechanism:ProductStrategy.l2_squared",
        "return most\n",
        "return most * 9 // 10\n",
    ),
    Mutant(
        _RELEASE + "test_a_resumed_night_draws_the_very_same_noise",
        "blockveil.pipeline.releases.charged_steps:_commit",
        "bytes.fromhex(shared.digest if shared else charge.spec_digest)",
        "bytes(32)",
    ),
    Mutant(_RELEASE + "test_changed_data_under_the_same_id_is_refused_with_the_difference", *_RESERVE),
    Mutant(_RELEASE + "test_a_changed_config_under_the_same_id_is_refused_with_the_difference", *_RESERVE),
    Mutant(
        "tests/pipeline/releases/test_key_streams.py::test_every_shipped_config_asks_for_each_block_once",
        "blockveil.engine.noise.discrete_gaussian:_tile",
        "row, column = place\n",
        "row, column = place\n    draw(row, column, 1)\n",
        "quickstart",
    ),
    Mutant(
        "tests/flows/cli/test_cli.py::test_a_plan_reads_no_data_and_shows_cost_and_error",
        "blockveil.pipeline.plan.planning:make_plan",
        "try:\n        designed",
        "open(loaded.resolve(loaded.config.data.store, 'data.store') / 'zarr.json')\n    try:\n        designed",
    ),
    Mutant(
        _SIGNED + "test_neither_a_typed_name_nor_another_plan_key_officer_or_text_counts",
        "blockveil.pipeline.plan.signed_approval:found",
        "if not approval.holds or ",
        "if ",
    ),
    Mutant(
        _SIGNED + "test_an_approval_for_a_ledger_is_refused_by_another_and_taken_by_the_same_one_elsewhere",
        "blockveil.pipeline.plan.signed_approval:found",
        "plan.config.release.account, ledger.first())",
        "plan.config.release.account, approval.ledger)",
    ),
    Mutant(
        "tests/pipeline/verification/test_verified.py::"
        "test_numbers_that_cannot_be_do_not_pass_as_checked_or_as_not_stated",
        "blockveil.pipeline.verification.verified:_number",
        " or found < 0",
        "",
    ),
    Mutant(
        "tests/pipeline/verification/test_signed_releases.py::"
        "test_a_release_that_names_the_entry_of_another_is_not_called_paid_for",
        "blockveil.pipeline.verification.verified:_by_proofs",
        "if given.key is None or _signature(stated, given.key).holds is not True:",
        "if False:",
    ),
    Mutant(
        "tests/pipeline/ledger/test_ledger_permissions.py::"
        "test_a_folder_above_in_which_every_account_could_put_an_older_ledger_is_refused",
        "blockveil.pipeline.base.permissions:_check_above",
        "if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:",
        "if False:",
    ),
    Mutant(
        "tests/pipeline/verification/test_signed_releases.py::"
        "test_another_key_does_not_hold_even_if_it_signed_everything_anew",
        "blockveil.pipeline.verification.verified:_signature",
        "raw(found) != raw(key)",
        "False",
    ),
    Mutant(
        "tests/pipeline/verification/test_verified.py::test_a_promise_that_does_not_follow_is_found",
        "blockveil.pipeline.verification.verified:_promise",
        "found <= Decimal(delta)",
        "True",
    ),
    Mutant(
        "tests/engine/sensitivity/test_histogram_problem.py::test_the_sensitivity_is_that_of_one_bin_a_column",
        "blockveil.engine.sensitivity.histogram_problem:Histograms.l2",
        "self._changes / spread",
        "1.0 / spread",
    ),
    Mutant(
        "tests/engine/sensitivity/test_marginal_problem.py::test_it_is_the_largest_distance_of_all_pairs_of_records",
        "blockveil.engine.sensitivity.marginal_problem:Marginals._changing",
        "else 2",
        "else 1",
    ),
    Mutant(
        "tests/engine/answers/test_step_records.py::test_a_batch_is_a_function_of_the_record_alone",
        "blockveil.engine.answers.step_records:FixedBatches.of",
        "+ factors[0])",
        "+ factors[0] * np.arange(len(words), dtype=np.uint64))",
    ),
    Mutant(
        "tests/pipeline/ledger/test_ledger_permissions.py::test_a_file_that_others_may_write_to_is_refused",
        "blockveil.pipeline.base.permissions:_check",
        "if mode & _OTHERS:",
        "if False:",
    ),
    Mutant(
        "tests/pipeline/ledger/test_heads.py::test_a_head_must_be_in_its_place",
        "blockveil.pipeline.ledger.verification:_Wanted.see",
        "self._position in (None, position)",
        "True",
    ),
    Mutant(
        "tests/pipeline/config/test_secrets.py::test_a_secret_that_others_can_read_or_change_is_refused",
        "blockveil.pipeline.base.permissions:private_problem",
        "if mode & others & ~allowed:",
        "if False:",
    ),
)
"""One for each test, at least; none needs another process than that of the test."""


class _Planting:
    """Plants a mistake once the tests are collected, and hears whether one of them fails then."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant, self._planted = mutant, ExitStack()
        self.failed = False

    def pytest_collection_finish(self) -> None:
        """Plant it: the product is imported by now."""
        self._planted.enter_context(self._mutant.planted())

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that cannot be set up finds nothing."""
        self.failed = self.failed or (report.when == "call" and report.failed)


def survives(mutant: Mutant) -> bool:
    """Whether the test passes although the mistake is there; run in a process of its own, whose caches are new."""
    child = os.fork()
    if child == 0:
        found = False
        try:
            found = _finds(mutant)
        finally:
            os._exit(0 if found else 1)
    return os.waitpid(child, 0)[1] != 0


def _finds(mutant: Mutant) -> bool:
    import pytest

    planting = _Planting(mutant)
    asked = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", mutant.test]
    with open(os.devnull, "w") as silent:
        os.dup2(silent.fileno(), 1)
        pytest.main([*asked, *(["-k", mutant.among] if mutant.among else [])], plugins=[planting])
    return planting.failed


def main(tests: list[str]) -> int:
    """Plant those of some tests, or all; 1 where one is not found."""
    unfound = 0
    for mutant in MUTANTS:
        if not tests or mutant.test in tests:
            found = not survives(mutant)
            unfound += not found
            print(f"{'found' if found else 'NOT FOUND'}: {mutant.where}: {mutant.old!r}, by {mutant.test}", flush=True)
    return 1 if unfound else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
