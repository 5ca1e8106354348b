"""Mistakes for the replay of configs, frozen outputs and charges of units of several rows."""

from tests.planted.mutant import of

MUTANTS = (
    *of(
        "tests/pipeline/study/test_frozen_outputs.py",
        (
            "test_the_charge_is_attained_or_nearly_and_half_the_noise_is_refuted",
            "blockveil.engine.mechanisms.directions.exponential:DirectionsDesign.frozen_loss",
            "(most - least)",
            "most",
            ("exponential", "replace-one"),
        ),
        (
            "test_the_charge_is_attained_or_nearly_and_half_the_noise_is_refuted",
            "blockveil.engine.mechanisms.published.buckets:BucketsDesign.frozen_loss",
            "counts * self.bucket_law.rate + ",
            "",
            ("dawa", "add-remove"),
        ),
        (
            "test_a_charge_for_one_of_three_rows_is_refuted",
            "blockveil.pipeline.study.replay:_frozen",
            "path.plan.charge.epsilon",
            "design.loss.epsilon",
            ("dawa",),
        ),
        (
            "test_records_twice_as_long_as_what_is_charged_are_refuted",
            "blockveil.pipeline.study.frozen_outputs:exact_answer",
            "isinstance(design, Frozen)",
            "False",
        ),
        (
            "test_one_direction_charged_for_two_is_refuted",
            "blockveil.engine.mechanisms.directions.exponential:DirectionsDesign.frozen_loss",
            "min(self.count, ",
            "min(1, ",
        ),
        (
            "test_a_number_of_records_beside_what_is_drawn_is_refuted",
            "blockveil.pipeline.study.replay:_counted",
            "for more in (0, 1))",
            "for more in (0, 0))",
            ("dawa",),
        ),
        (
            "test_the_gain_is_the_largest_over_every_pair_of_partitions",
            "blockveil.engine.mechanisms.published.dawa:Partitioner.gain",
            "_least(moved) + _least(-moved)",
            "2 * _least(moved)",
        ),
        (
            "test_the_gain_is_charged_in_full_for_every_table_of_three_cells",
            "blockveil.engine.mechanisms.published.dawa:Partitioner.gain",
            "_least(moved) + _least(-moved)",
            "_least(moved)",
        ),
        (
            "test_a_mechanism_that_adds_noise_has_no_exact_answer_in_place_of_its_release",
            "blockveil.pipeline.study.frozen_outputs:exact_answer",
            "isinstance(design, Frozen)",
            "True",
        ),
    ),
    *of(
        "tests/pipeline/study/test_replay.py",
        (
            "test_noise_of_half_the_size_is_refuted",
            "blockveil.pipeline.study.replay:_loss",
            "return length / design.grid.privacy_scale",
            "return min(length, 1.0) / design.grid.privacy_scale",
        ),
        (
            "test_a_missing_clip_is_refuted",
            "blockveil.pipeline.study.replay:Replayed.refutations",
            "self.share > _ROUNDING",
            "self.share > 10 * _ROUNDING",
        ),
        (
            "test_a_sampler_that_draws_less_noise_than_its_law_is_refuted",
            "blockveil.pipeline.study.replay:_noise",
            "sqrt(total / draws) / law",
            "1.0",
        ),
        (
            "test_the_same_noise_in_two_rows_is_refuted",
            "blockveil.pipeline.study.replay:_repeat",
            "return len(np.unique(noise, axis=0)) < len(noise)",
            "return False",
        ),
        (
            "test_the_number_of_records_in_what_is_published_is_refuted",
            "blockveil.pipeline.study.replay:_counted",
            "rows + more",
            "rows",
        ),
        (
            "test_a_charge_for_one_of_three_rows_is_refuted",
            "blockveil.pipeline.study.replay_path:ReplayPath.records",
            "self.copies, axis=0",
            "1, axis=0",
        ),
        (
            "test_noise_that_depends_on_the_records_is_refuted",
            "blockveil.pipeline.study.replay:_largest_share",
            "path.units, lambda one, other: _loss(path.design, one - other)",
            "path.units, lambda one, other: _loss(path.design, one - one)",
        ),
        (
            "test_nights_in_one_charge_spend_together_what_is_charged",
            "blockveil.pipeline.study.replay:_over_nights",
            "squares += ",
            "squares = ",
        ),
        (
            "test_no_claim_of_a_shipped_config_is_refuted_and_its_charge_is_attained",
            "blockveil.engine.noise.additive:gaussian_design",
            "sensitivity.bound / (usable",
            "0.9 * sensitivity.bound / (usable",
            ("quickstart",),
        ),
        (
            "test_noise_with_a_diagonal_of_its_own_keeps_its_charge_and_half_of_it_is_refuted",
            "blockveil.engine.noise.additive:gaussian_design",
            "sensitivity.bound / (usable",
            "0.9 * sensitivity.bound / (usable",
        ),
        (
            "test_k_norm_noise_keeps_its_charge_and_half_of_it_is_refuted",
            "blockveil.engine.noise.additive:pure_design",
            "scale = sensitivity.bound",
            "scale = 0.9 * sensitivity.bound",
            ("rows",),
        ),
    ),
    *of(
        "tests/pipeline/plan/test_grouping.py",
        (
            "test_gaussian_noise_grows_by_the_number_of_rows",
            "blockveil.pipeline.plan.grouping:guarantee_of_a_row",
            "gaussian_mu(whole.epsilon, whole.delta) / rows",
            "gaussian_mu(whole.epsilon, whole.delta)",
        ),
        (
            "test_a_unit_is_charged_what_its_rows_cost_one_after_the_other",
            "blockveil.pipeline.plan.grouping:charge_of_a_unit",
            "rows * row.epsilon",
            "row.epsilon",
        ),
        (
            "test_a_mechanism_that_was_calibrated_to_the_unit_instead_of_the_row_is_refused",
            "blockveil.pipeline.plan.grouping:charge_of_a_unit",
            "if unit.delta(whole.epsilon) > whole.delta:",
            "if False:",
        ),
    ),
)
