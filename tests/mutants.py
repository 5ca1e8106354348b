"""Mistakes for the tests that guard promises: each is planted into the product, and its test must fail then.

``python -m tests.mutants [TEST...]`` runs all of them, or those of some tests, and prints which are found, and the
seconds of the processor that each took; ``--without`` prints which claims have none. A mistake is a change of the
source of one function, whose code is exchanged in place, so that every caller makes the mistake.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
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
_FROZEN = "tests/pipeline/study/test_frozen_outputs.py::"
_REPLAY = "tests/pipeline/study/test_replay.py::"
_GROUPING = "tests/pipeline/plan/test_grouping.py::"
_DIAGONAL = "tests/engine/sensitivity/test_moment_diagonal.py::"
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
        "tests/engine/mechanisms/counts/test_range_residuals.py::test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records",
        "blockveil.engine.mechanisms.counts.range_residuals:RangeResiduals._largest_distance",
        "- 2.0 * product",
        "- product",
        among="replace-one",
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
    Mutant(
        _FROZEN + "test_the_charge_is_attained_or_nearly_and_half_the_noise_is_refuted",
        "blockveil.engine.mechanisms.directions.exponential:DirectionsDesign.frozen_loss",
        "(most - least)",
        "most",
        "exponential and replace-one",
    ),
    Mutant(
        _FROZEN + "test_the_charge_is_attained_or_nearly_and_half_the_noise_is_refuted",
        "blockveil.engine.mechanisms.counts.buckets:BucketsDesign.frozen_loss",
        "counts * self.bucket_law.rate + ",
        "",
        "dawa and add-remove",
    ),
    Mutant(
        _FROZEN + "test_a_charge_for_one_of_three_rows_is_refuted",
        "blockveil.pipeline.study.replay:_frozen",
        "path.plan.charge.epsilon",
        "design.loss.epsilon",
        "dawa",
    ),
    Mutant(
        _FROZEN + "test_records_twice_as_long_as_what_is_charged_are_refuted",
        "blockveil.pipeline.study.frozen_outputs:exact_answer",
        "isinstance(design, Frozen)",
        "False",
    ),
    Mutant(
        _FROZEN + "test_one_direction_charged_for_two_is_refuted",
        "blockveil.engine.mechanisms.directions.exponential:DirectionsDesign.frozen_loss",
        "min(self.count, ",
        "min(1, ",
    ),
    Mutant(
        _FROZEN + "test_a_number_of_records_beside_what_is_drawn_is_refuted",
        "blockveil.pipeline.study.replay:_counted",
        "for more in (0, 1))",
        "for more in (0, 0))",
        "dawa",
    ),
    Mutant(
        _FROZEN + "test_the_gain_is_the_largest_over_every_pair_of_partitions",
        "blockveil.engine.mechanisms.counts.dawa:Partitioner.gain",
        "_least(moved) + _least(-moved)",
        "2 * _least(moved)",
    ),
    Mutant(
        _FROZEN + "test_the_gain_is_charged_in_full_for_every_table_of_three_cells",
        "blockveil.engine.mechanisms.counts.dawa:Partitioner.gain",
        "_least(moved) + _least(-moved)",
        "_least(moved)",
    ),
    Mutant(
        _FROZEN + "test_a_mechanism_that_adds_noise_has_no_exact_answer_in_place_of_its_release",
        "blockveil.pipeline.study.frozen_outputs:exact_answer",
        "isinstance(design, Frozen)",
        "True",
    ),
    Mutant(
        _REPLAY + "test_noise_of_half_the_size_is_refuted",
        "blockveil.pipeline.study.replay:_loss",
        "return length / design.grid.privacy_scale",
        "return min(length, 1.0) / design.grid.privacy_scale",
    ),
    Mutant(
        _REPLAY + "test_a_missing_clip_is_refuted",
        "blockveil.pipeline.study.replay:Replayed.refutations",
        "self.share > _ROUNDING",
        "self.share > 10 * _ROUNDING",
    ),
    Mutant(
        _REPLAY + "test_a_sampler_that_draws_less_noise_than_its_law_is_refuted",
        "blockveil.pipeline.study.replay:_noise",
        "sqrt(total / draws) / law",
        "1.0",
    ),
    Mutant(
        _REPLAY + "test_the_same_noise_in_two_rows_is_refuted",
        "blockveil.pipeline.study.replay:_repeat",
        "return len(np.unique(noise, axis=0)) < len(noise)",
        "return False",
    ),
    Mutant(
        _REPLAY + "test_the_number_of_records_in_what_is_published_is_refuted",
        "blockveil.pipeline.study.replay:_counted",
        "rows + more",
        "rows",
    ),
    Mutant(
        _REPLAY + "test_a_charge_for_one_of_three_rows_is_refuted",
        "blockveil.pipeline.study.replay_path:ReplayPath.records",
        "self.copies, axis=0",
        "1, axis=0",
    ),
    Mutant(
        _REPLAY + "test_noise_that_depends_on_the_records_is_refuted",
        "blockveil.pipeline.study.replay:replay",
        "here - there",
        "here - here",
    ),
    Mutant(
        _REPLAY + "test_nights_in_one_charge_spend_together_what_is_charged",
        "blockveil.pipeline.study.replay:_over_nights",
        "squares += ",
        "squares = ",
    ),
    Mutant(
        _GROUPING + "test_gaussian_noise_grows_by_the_number_of_rows",
        "blockveil.pipeline.plan.grouping:guarantee_of_a_row",
        "gaussian_mu(whole.epsilon, whole.delta) / rows",
        "gaussian_mu(whole.epsilon, whole.delta)",
    ),
    Mutant(
        _GROUPING + "test_a_unit_is_charged_what_its_rows_cost_one_after_the_other",
        "blockveil.pipeline.plan.grouping:charge_of_a_unit",
        "rows * row.epsilon",
        "row.epsilon",
    ),
    Mutant(
        _GROUPING + "test_a_mechanism_that_was_calibrated_to_the_unit_instead_of_the_row_is_refused",
        "blockveil.pipeline.plan.grouping:charge_of_a_unit",
        "if unit.delta(whole.epsilon) > whole.delta:",
        "if False:",
    ),
    Mutant(
        "tests/engine/sensitivity/test_totals_problem.py::"
        "test_no_neighbours_are_further_apart_and_some_are_as_far_where_it_is_exact",
        "blockveil.engine.sensitivity.totals_problem:Totals.l2",
        "hypot(1.0 / float(sizes[0])",
        "hypot(0.5 / float(sizes[0])",
    ),
    Mutant(
        _DIAGONAL + "test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far",
        "blockveil.engine.sensitivity.moment_diagonal:box_sensitivity",
        "value = sqrt(_of_corners(features, diagonal))",
        "value = 0.95 * sqrt(_of_corners(features, diagonal))",
    ),
    Mutant(
        "tests/engine/sensitivity/test_diagonal_sizes.py::"
        "test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far",
        "blockveil.engine.sensitivity.diagonal_sizes:added_square",
        "(constant + p) ** 2 + squares",
        "p**2 + squares",
    ),
    Mutant(
        "tests/engine/sensitivity/test_diagonal_sizes.py::test_replacing_a_record_of_whole_numbers_moves_no_further",
        "blockveil.engine.sensitivity.diagonal_sizes:replaced_bound",
        "(gain - 1.0) * squares",
        "0.5 * (gain - 1.0) * squares",
    ),
    Mutant(
        "tests/engine/noise/test_level_strategy.py::test_measurements_of_neighbours_differ_by_no_more_than_the_bound",
        "blockveil.engine.noise.level_strategy:Levels.squared_norm_of",
        "v * v * max(",
        "v * max(",
    ),
    Mutant(
        "tests/engine/noise/test_discrete_laplace.py::"
        "test_the_tables_are_within_the_proven_distance_of_the_law_in_exact_rational_arithmetic",
        "blockveil.engine.noise.discrete_laplace:digit_thresholds",
        "/ whole * 2**128)",
        "/ whole * (2**128 - 2**70))",
    ),
    Mutant(
        "tests/engine/mechanisms/counts/test_dawa.py::"
        "test_the_loss_of_the_partition_is_never_exceeded_by_exact_probabilities",
        "blockveil.engine.mechanisms.counts.dawa:Partitioner.exact_loss",
        "max(2 * self.sensitivity, 1)",
        "max(self.sensitivity, 1)",
    ),
    Mutant(
        "tests/pipeline/releases/test_keys.py::test_a_destroyed_secret_is_overwritten_and_gone",
        "blockveil.pipeline.releases.keys:KeyStore._wipe",
        "file.write(bytes(SECRET_BYTES))",
        "pass",
    ),
    Mutant(
        "tests/pipeline/data/test_known_content.py::test_whatever_changes_is_hashed_again",
        "blockveil.pipeline.data.known_content:_state",
        "of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns",
        "0, 0, 0, 0",
    ),
    Mutant(
        "tests/pipeline/ledger/test_ledger_permissions.py::"
        "test_a_folder_that_others_may_write_to_is_refused_and_gets_no_ledger",
        "blockveil.pipeline.base.permissions:_check",
        "if mode & _OTHERS:",
        "if False:",
    ),
)
"""One for each test of a numbered promise, at least, some of claims and of the replay; none needs another process."""


_AS_IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"
"""Of plugins of pytest that were imported before the processes parted."""


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
    return not _tried(mutant)[0]


def _tried(mutant: Mutant) -> tuple[bool, float]:
    """Whether the mistake is found, and the seconds of the processor that it took."""
    child = os.fork()
    if child == 0:
        found = False
        try:
            found = _finds(mutant)
        finally:
            os._exit(0 if found else 1)
    _, status, used = os.wait4(child, 0)
    return status == 0, used.ru_utime + used.ru_stime


def _finds(mutant: Mutant) -> bool:
    import pytest

    planting = _Planting(mutant)
    asked = ["-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-W", _AS_IMPORTED, mutant.test]
    with open(os.devnull, "w") as silent:
        os.dup2(silent.fileno(), 1)
        pytest.main([*asked, *(["-k", mutant.among] if mutant.among else [])], plugins=[planting])
    return planting.failed


def _import_what_all_need() -> None:
    """Once, before the processes part: nothing of the product, whose caches stay new."""
    for name in ("dask.array", "hypothesis", "numpy", "pytest", "scipy.optimize", "scipy.stats", "sqlalchemy", "zarr"):
        importlib.import_module(name)


def main(tests: list[str]) -> int:
    """Plant those of some tests, or all, and print seconds of the processor for each; 1 where one is not found."""
    _import_what_all_need()
    unfound, times = 0, list[float]()
    for mutant in MUTANTS:
        if not tests or mutant.test in tests:
            found, took = _tried(mutant)
            unfound += not found
            times.append(took)
            words = f"{mutant.where}: {mutant.old!r}, by {mutant.test}"
            print(f"{'found' if found else 'NOT FOUND'}: {took:5.1f} s: {words}", flush=True)
    most = max(times, default=0.0)
    print(f"{len(times)} mistakes, {unfound} not found; {sum(times):.0f} s together, {most:.1f} s at most")
    return 1 if unfound else 0


def unguarded() -> list[str]:
    """Claims none of whose tests has a mistake of its own, as page and first words."""
    claims = tomllib.loads((Path(__file__).parents[1] / "docs" / "evidence.toml").read_text())["claim"]
    known = {mutant.test for mutant in MUTANTS}
    return [f"{each['page']}: {each['says']}" for each in claims if known.isdisjoint(each.get("shown_by", ()))]


if __name__ == "__main__":
    if sys.argv[1:] == ["--without"]:
        print("\n".join(unguarded()))
    else:
        sys.exit(main(sys.argv[1:]))
