"""Mistakes for claims about configs, budgets, the ledger and plans."""

from tests.planted.mutant import of

MUTANTS = (
    *of(
        "tests/pipeline/budget/test_filter.py",
        (
            "test_a_very_large_cap_is_not_lost_to_the_samplers",
            "blockveil.pipeline.budget.filter:Cap.level",
            "return min(self.epsilon, math.log(max(self.slack * self.delta / 2.0 / _LEAST_DISTANCE, 2.0)))",
            "return self.epsilon",
        ),
    ),
    *of(
        "tests/pipeline/budget/test_parts.py",
        (
            "TestRelease::test_a_store_that_says_something_else_before_the_commit_is_noticed",
            "blockveil.pipeline.data.datasets:Dataset.check_part",
            " or only.part(self.part.dataset) != self.part",
            "",
        ),
        (
            "TestRelease::test_a_store_that_is_replaced_while_it_is_opened_is_noticed",
            "blockveil.pipeline.data.datasets:open_records",
            "dataset.check_part()",
            "pass",
        ),
        (
            "TestRelease::test_a_forecast_is_refused",
            "blockveil.pipeline.plan.forecast:_require_nights_that_add_up",
            "if parts is not None:",
            "if False:",
        ),
        (
            "TestRelease::test_a_release_of_a_part_is_weighed_as_if_its_part_were_the_largest",
            "blockveil.pipeline.plan.budgets:nights_left",
            "status.nights_left(plan.charge, plan.new_part)",
            "status.nights_left(plan.charge)",
        ),
    ),
    *of(
        "tests/pipeline/config/test_bounds_file.py",
        (
            "test_the_release_names_the_digest_of_the_file_and_the_release_that_paid_but_no_path",
            "blockveil.pipeline.config.bounds_file:_read",
            "hashlib.sha256(content)",
            "hashlib.sha256(name.encode())",
        ),
    ),
    *of(
        "tests/pipeline/config/test_config.py",
        (
            "TestNoDefaults::test_a_missing_decision_is_named",
            "blockveil.pipeline.config.explain:validated",
            "model.model_validate(tree)",
            'model.model_validate({**tree, "privacy": {"delta": 1e-6, **tree.get("privacy", {})}})',
        ),
        (
            "TestRefusals::test_delta_is_refused_from_one_over_rows_on",
            "blockveil.pipeline.config.model:ReleaseConfig._delta_protects_everyone",
            "if delta >= 1.0 / rows:",
            "if delta > 1.0 / rows:",
        ),
    ),
    *of(
        "tests/pipeline/config/test_row_query.py",
        (
            "test_what_mixes_persons_or_reaches_further_is_refused",
            "blockveil.pipeline.config.query_reading:_lookups",
            'join.args.get("side") != "LEFT"',
            "False",
        ),
    ),
    *of(
        "tests/pipeline/ledger/test_budgets.py",
        (
            "test_a_month_has_its_own_cap_and_the_next_month_a_new_one",
            "blockveil.pipeline.ledger.periods:Period.start",
            "first = day.replace(day=1)",
            "first = day",
        ),
    ),
    *of(
        "tests/pipeline/ledger/test_tables.py",
        (
            "test_a_ledger_of_another_schema_is_refused_whoever_uses_it_and_stays_as_it_is",
            "blockveil.pipeline.ledger.database:Database._check",
            "version != SCHEMA",
            "version is not None and version > SCHEMA",
        ),
    ),
    *of(
        "tests/pipeline/ledger/test_transfer.py",
        (
            "test_an_export_goes_on_nowhere_but_where_its_ledger_was_closed_for",
            "blockveil.pipeline.ledger.moving:check_loadable",
            "address is not None and not handed_over(rows, address)",
            "False",
        ),
    ),
    *of(
        "tests/pipeline/plan/test_approval.py",
        (
            "test_a_release_within_its_share_asks_nobody_and_one_above_it_does",
            "blockveil.pipeline.plan.approval:question",
            "1.0 / fits <= section",
            "0.5 / fits <= section",
        ),
    ),
    *of(
        "tests/pipeline/plan/test_maps.py",
        (
            "test_a_release_is_not_finished_with_another_map_than_it_was_begun_with",
            "blockveil.pipeline.questions.question:mapped_facts",
            '"sha256": mixing.digest',
            '"sha256": ""',
        ),
        (
            "test_a_night_of_a_series_never_has_another_map_than_those_before",
            "blockveil.pipeline.questions.question:mapped_facts",
            '"sha256": mixing.digest',
            '"sha256": ""',
        ),
    ),
    *of(
        "tests/pipeline/public/test_private_bounds.py",
        (
            "test_bounds_are_drafted_released_read_and_taken_and_both_releases_are_charged",
            "blockveil.pipeline.ledger.reserving:ChargeRequest._paid",
            "ticks = booked(budget, self.charge, self.part)",
            'ticks = NOTHING if "bounds" in self.release_id else booked(budget, self.charge, self.part)',
        ),
        (
            "test_bounds_whose_release_the_ledger_does_not_know_are_refused_before_anything_is_spent",
            "blockveil.pipeline.releases.charged_steps:_require_paid",
            "if not released:",
            "if False:",
        ),
    ),
    *of(
        "tests/pipeline/kinds/histograms/test_column_histograms.py",
        (
            "test_the_charge_is_for_all_columns_and_all_rows_of_a_unit",
            "blockveil.engine.kinds.histograms.problem:Histograms.l2",
            "np.sum(",
            "np.max(",
        ),
    ),
    *of(
        "tests/pipeline/kinds/gradients/test_training_batches.py",
        (
            "test_steps_over_fixed_batches_have_the_noise_of_their_epochs",
            "blockveil.engine.answers.step_records:FixedBatches.most",
            "-(-steps // self.count)",
            "steps // self.count",
        ),
    ),
)
