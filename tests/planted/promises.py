"""Mistakes for the tests of numbered promises, and of what they rest on."""

from tests.planted.mutant import of

MUTANTS = (
    *of(
        "tests/engine/records/test_quantiser.py",
        (
            "test_the_bound_holds_on_the_integers_for_any_finite_record",
            "blockveil.engine.records.rounding:CubeGrid.bound",
            "np.minimum(values, self.highest, out=values)",
            "pass",
        ),
        (
            "test_a_record_alone_decides_its_integers",
            "blockveil.engine.records.quantiser:Quantiser.quantise_into",
            "copy_settled(records, values, self.stand_in)\n",
            "copy_settled(records, values, self.stand_in)\n    values *= 1 + len(records) % 7\n",
        ),
    ),
    *of(
        "tests/engine/records/test_fine_dither.py",
        (
            "test_a_record_alone_decides_its_integers",
            "blockveil.engine.records.fine_dither:FineDither.starts",
            "return _mixed(",
            "return _mixed(np.arange(len(words), dtype=np.uint64) + ",
        ),
        (
            "test_places_of_all_starts_are_even",
            "blockveil.engine.records.fine_dither:LEAST_PLACE",
            "- 0.5",
            "- 0.4375",
        ),
    ),
    *of(
        "tests/engine/records/test_lattice.py",
        (
            "test_multiples_of_a_declared_step_are_exact_whatever_else_a_record_holds",
            "blockveil.engine.records.lattice:on_lattice",
            "q - np.where(between",
            "q - np.where(False & between",
        ),
        (
            "test_no_integer_is_larger_and_no_feature_reaches_much_less",
            "blockveil.engine.records.lattice:on_lattice",
            "known & (reach >= LEAST_REACH)",
            "known & (reach >= 0.5)",
        ),
    ),
    *of(
        "tests/pipeline/plan/test_rounded_ends.py",
        (
            "test_no_pair_of_records_at_8_bits_is_further_apart_than_is_charged",
            "blockveil.engine.records.quantiser:Quantiser.ends",
            "np.floor(self._grid.lowest), np.ceil(self._grid.highest)",
            "np.rint(self._grid.lowest), np.rint(self._grid.highest)",
            ("uneven, about zero", "replace-one"),
        ),
        (
            "test_no_pair_of_records_at_8_bits_is_further_apart_than_is_charged",
            "blockveil.engine.kinds.moments.problem:SecondMoment._reached",
            "/= np.maximum(-self.ends[0], self.ends[1])",
            "/= np.minimum(-self.ends[0], self.ends[1])",
            ("uneven, about zero", "add-remove"),
        ),
    ),
    *of(
        "tests/engine/estimates/test_rounding_error.py",
        (
            "test_sums_of_worst_contents_deviate_as_is_stated_and_not_by_5_per_cent_more_or_less",
            "blockveil.engine.estimates.rounding_error:of_coordinates",
            "* records * min(alike, records)",
            "* records",
            ("8",),
        ),
    ),
    *of(
        "tests/engine/records/test_quantiser_limits.py",
        (
            "test_what_is_refused_would_have_left_its_bound",
            "blockveil.engine.records.dither:Dither.move",
            "values += ",
            "values += 0 * ",
        ),
        (
            "test_more_features_than_squares_add_up_exactly_are_refused",
            "blockveil.engine.records.quantiser_limits:_check_vectors",
            "if alone else",
            "if True else",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_second_moment_sensitivity.py",
        (
            "test_so_many_weights_as_are_allowed_are_added_up_within_the_margin",
            "blockveil.engine.sensitivity.second_moment:second_moment_sensitivity",
            "else np.sum(weights))",
            "else np.cumsum(weights)[-1])",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_reach.py",
        (
            "test_a_query_whose_proof_covers_fewer_features_refuses_more",
            "blockveil.engine.sensitivity.reach:check_few",
            "features > MOST_IN_A_BOX",
            "features > 2**17 - 1",
        ),
    ),
    *of(
        "tests/engine/answers/test_gram.py",
        (
            "test_the_sum_equals_python_integers",
            "blockveil.engine.answers.float_sums:FloatTileSum.add",
            "symmetric(1.0, ",
            "symmetric(1.001, ",
        ),
        (
            "test_a_plan_that_could_overflow_is_refused",
            "blockveil.engine.answers.gram:check_no_overflow",
            "> 2**62:",
            "> 2**63:",
        ),
        (
            "test_random_chunkings_tilings_row_orders_and_schedulers_release_the_same_bits",
            "blockveil.engine.records.quantiser:Quantiser.quantise_into",
            "copy_settled(records, values, self.stand_in)\n",
            "copy_settled(records, values, self.stand_in)\n    values *= 1 + len(records) % 7\n",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_release.py",
        (
            "test_compute_settings_do_not_change_a_bit_of_the_release",
            "blockveil.engine.records.quantiser:Quantiser.quantise_into",
            "copy_settled(records, values, self.stand_in)\n",
            "copy_settled(records, values, self.stand_in)\n    values *= 1 + len(records) % 7\n",
        ),
        (
            "test_a_resumed_night_draws_the_very_same_noise",
            "blockveil.pipeline.releases.charged_steps:_commit",
            "bytes.fromhex(charge.spec_digest)",
            "bytes(32)",
        ),
        (
            "test_changed_data_under_the_same_id_is_refused_with_the_difference",
            "blockveil.pipeline.ledger.reserving:ChargeRequest._check_active",
            "if active.spec_digest != self.spec_digest:",
            "if False:",
        ),
        (
            "test_a_changed_config_under_the_same_id_is_refused_with_the_difference",
            "blockveil.pipeline.ledger.reserving:ChargeRequest._check_active",
            "if active.spec_digest != self.spec_digest:",
            "if False:",
        ),
    ),
    *of(
        "tests/engine/guarantees/test_proved_bounds.py",
        (
            "test_a_calibrated_loss_keeps_its_promise_and_a_larger_one_does_not",
            "blockveil.engine.guarantees.calibration:gaussian_log_delta",
            "exact = Fraction(mu) / 2 - ",
            "exact = Fraction(mu) / 2 - Fraction(1, 1000) - ",
        ),
        (
            "test_a_stated_epsilon_is_kept_and_a_smaller_one_is_not",
            "blockveil.engine.guarantees.calibration:gaussian_log_delta",
            "exact = Fraction(mu) / 2 - ",
            "exact = Fraction(mu) / 2 - Fraction(1, 1000) - ",
        ),
        (
            "test_all_that_a_budget_lets_be_spent_keeps_its_promise",
            "blockveil.engine.guarantees.calibration:gaussian_log_delta",
            "exact = Fraction(mu) / 2 - ",
            "exact = Fraction(mu) / 2 - Fraction(1, 1000) - ",
        ),
        (
            "test_a_charge_is_never_booked_below_its_square",
            "blockveil.pipeline.budget.filter:Ticks.of",
            "math.ceil(Fraction(loss.mu)",
            "math.floor(Fraction(loss.mu)",
        ),
    ),
    *of(
        "tests/engine/mechanisms/test_gaussian_mechanism.py",
        (
            "test_rounding_to_the_grid_is_exact_and_to_the_nearest",
            "blockveil.engine.noise.design:add_noise",
            "quotient += remainder >= steps - remainder",
            "pass",
        ),
        (
            "test_the_deviation_is_the_analytic_gaussian_up_to_the_cost_of_rounding",
            "blockveil.engine.noise.additive:usable_mu",
            "return gaussian_mu(",
            "return 1.05 * gaussian_mu(",
        ),
    ),
    *of(
        "tests/engine/noise/test_published_sampler.py",
        (
            "test_every_entry_of_the_table_is_the_true_probability_rounded_to_nearest",
            "blockveil.engine.noise.gaussian_table:_weights",
            "for n in range(1, 40):",
            "for n in range(1, 5):",
        ),
        (
            "test_a_draw_is_as_near_to_its_law_as_is_charged",
            "blockveil.engine.noise.gaussian_table:cumulative",
            "+ total)",
            "+ total + total * 2**50)",
        ),
        (
            "test_an_entry_that_is_off_by_one_is_refused",
            "tests.oracles.published_sampler:entries_that_are_wrong",
            "(2 * entry - 1) * least",
            "(2 * entry - 9) * least",
        ),
    ),
    *of(
        "tests/engine/noise/test_gaussian_table.py",
        (
            "test_a_draw_is_within_two_to_the_minus_ninety_of_the_discrete_gaussian",
            "blockveil.engine.noise.gaussian_table:cumulative",
            "+ total)",
            "+ total + total * 2**50)",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_attained.py",
        (
            "test_of_second_moments",
            "blockveil.engine.kinds.moments.problem:SecondMoment.l2",
            "weights = self._reached(spread.rows) ** -2.0",
            "weights = 0.95 * self._reached(spread.rows) ** -2.0",
        ),
        (
            "test_of_rows",
            "blockveil.engine.kinds.rows.problem:Rows._within",
            "found, least = wider",
            "known = Sensitivity(0.95 * known.bound, 0.95 * known.bound)\n    found, least = wider",
        ),
        (
            "test_of_outer_products",
            "blockveil.engine.kinds.outer.problem:OuterProducts._within",
            "return known\n",
            "return Sensitivity(0.95 * known.bound, 0.95 * known.attained)\n",
        ),
        (
            "test_of_strategies",
            "blockveil.engine.mechanisms.counts.matrix_mechanism:ProductStrategy.l2_squared",
            "return most\n",
            "return most * 9 // 10\n",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_key_streams.py",
        (
            "test_every_shipped_config_asks_for_each_block_once",
            "blockveil.engine.noise.discrete_gaussian:_tile",
            "row, column = place\n",
            "row, column = place\n    draw(row, range(column, column + 1), range(1))\n",
            ("quickstart",),
        ),
    ),
    *of(
        "tests/flows/cli/test_cli.py",
        (
            "test_a_plan_reads_no_data_and_shows_cost_and_error",
            "blockveil.pipeline.plan.planning:make_plan",
            "try:\n        known",
            "open(loaded.resolve(loaded.config.data.store, 'data.store') / 'zarr.json')\n    try:\n        known",
        ),
    ),
    *of(
        "tests/pipeline/plan/test_signed_approval.py",
        (
            "test_neither_a_typed_name_nor_another_plan_key_officer_or_text_counts",
            "blockveil.pipeline.plan.signed_approval:found",
            "if not approval.holds or ",
            "if ",
        ),
        (
            "test_an_approval_for_a_ledger_is_refused_by_another_and_taken_by_the_same_one_elsewhere",
            "blockveil.pipeline.plan.signed_approval:found",
            "plan.config.release.account, ledger.first())",
            "plan.config.release.account, approval.ledger)",
        ),
    ),
    *of(
        "tests/pipeline/verification/test_verified.py",
        (
            "test_numbers_that_cannot_be_do_not_pass_as_checked_or_as_not_stated",
            "blockveil.pipeline.verification.stated_numbers:stated_number",
            " or found < 0",
            "",
        ),
        (
            "test_a_promise_that_does_not_follow_is_found",
            "blockveil.pipeline.verification.verified:_promise",
            "found <= Decimal(delta)",
            "True",
        ),
    ),
    *of(
        "tests/pipeline/verification/test_every_mechanism.py",
        (
            "test_its_noise_and_unit_are_recomputed_and_another_row_is_found",
            "blockveil.pipeline.verification.verified:_against",
            "squared < found.least",
            "False",
            ("k-norm",),
        ),
    ),
    *of(
        "tests/pipeline/verification/test_stated_sensitivity.py",
        (
            "test_the_sensitivity_of_a_shipped_config_is_recomputed_and_a_twentieth_less_is_refuted",
            "blockveil.engine.kinds.histograms.problem:Histograms.l2",
            "self._changes",
            "0.9 * self._changes",
            ("bounds",),
        ),
        (
            "test_records_of_random_shapes_never_pass_the_product_s_bound_and_reach_what_it_attains",
            "blockveil.engine.sensitivity.second_moment:second_moment_sensitivity",
            "np.sum(weights))",
            "np.sum(weights) * 0.98)",
            ("0",),
        ),
        (
            "test_steps_of_a_training_are_counted_as_the_columns_of_their_matrix_say",
            "blockveil.pipeline.verification.stated_steps:steps_factor",
            "range(first, steps, every)",
            "range(first, steps, every + 1)",
        ),
        (
            "test_a_strategy_that_was_searched_is_read_and_held_against_its_digest",
            "blockveil.pipeline.verification.moved_strategies:columns_of",
            ".hexdigest() != digest",
            ".hexdigest() == 0",
        ),
        (
            "test_nights_are_counted_by_the_longest_column_of_their_weights",
            "blockveil.pipeline.verification.stated_steps:nights_factor",
            "age.bit_length()",
            "age",
        ),
    ),
    *of(
        "tests/pipeline/verification/test_signed_releases.py",
        (
            "test_a_release_that_names_the_entry_of_another_is_not_called_paid_for",
            "blockveil.pipeline.verification.verified:_by_proofs",
            "if given.key is None or _signature(stated, given.key).holds is not True:",
            "if False:",
        ),
        (
            "test_another_key_does_not_hold_even_if_it_signed_everything_anew",
            "blockveil.pipeline.verification.verified:_signature",
            "raw(found) != raw(key)",
            "False",
        ),
    ),
    *of(
        "tests/pipeline/ledger/test_ledger_permissions.py",
        (
            "test_a_folder_above_in_which_every_account_could_put_an_older_ledger_is_refused",
            "blockveil.pipeline.base.permissions:_check_above",
            "if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:",
            "if False:",
        ),
        (
            "test_a_file_that_others_may_write_to_is_refused",
            "blockveil.pipeline.base.permissions:_check",
            "if mode & _OTHERS:",
            "if False:",
        ),
        (
            "test_a_folder_that_others_may_write_to_is_refused_and_gets_no_ledger",
            "blockveil.pipeline.base.permissions:_check",
            "if mode & _OTHERS:",
            "if False:",
        ),
    ),
    *of(
        "tests/engine/kinds/histograms/test_histogram_problem.py",
        (
            "test_the_sensitivity_is_that_of_one_bin_a_column",
            "blockveil.engine.kinds.histograms.problem:Histograms.l2",
            "self._changes / spread",
            "1.0 / spread",
        ),
    ),
    *of(
        "tests/engine/kinds/marginals/test_marginal_problem.py",
        (
            "test_it_is_the_largest_distance_of_all_pairs_of_records",
            "blockveil.engine.kinds.marginals.problem:Marginals._changing",
            "else 2",
            "else 1",
        ),
    ),
    *of(
        "tests/engine/answers/test_step_records.py",
        (
            "test_a_batch_is_a_function_of_the_record_alone",
            "blockveil.engine.answers.step_records:FixedBatches.of",
            "+ factors[0])",
            "+ factors[0] * np.arange(len(words), dtype=np.uint64))",
        ),
    ),
    *of(
        "tests/pipeline/ledger/test_heads.py",
        (
            "test_a_head_must_be_in_its_place",
            "blockveil.pipeline.ledger.verification:_Wanted.see",
            "self._position in (None, position)",
            "True",
        ),
    ),
    *of(
        "tests/pipeline/config/test_secrets.py",
        (
            "test_a_secret_that_others_can_read_or_change_is_refused",
            "blockveil.pipeline.base.permissions:private_problem",
            "if mode & others & ~allowed:",
            "if False:",
        ),
    ),
    *of(
        "tests/engine/kinds/totals/test_totals_problem.py",
        (
            "test_no_neighbours_are_further_apart_and_some_are_as_far_where_it_is_exact",
            "blockveil.engine.kinds.totals.problem:Totals.l2",
            "hypot(1.0 / float(sizes[0])",
            "hypot(0.5 / float(sizes[0])",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_moment_diagonal.py",
        (
            "test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far",
            "blockveil.engine.sensitivity.moment_diagonal:box_sensitivity",
            "value = sqrt(_of_corners(features, diagonal))",
            "value = 0.95 * sqrt(_of_corners(features, diagonal))",
        ),
    ),
    *of(
        "tests/engine/noise/test_level_strategy.py",
        (
            "test_measurements_of_neighbours_differ_by_no_more_than_the_bound",
            "blockveil.engine.noise.level_strategy:Levels.squared_norm_of",
            "v * v * max(",
            "v * max(",
        ),
    ),
    *of(
        "tests/engine/noise/test_discrete_laplace.py",
        (
            "test_the_tables_are_within_the_proven_distance_of_the_law_in_exact_rational_arithmetic",
            "blockveil.engine.noise.discrete_laplace:digit_thresholds",
            "/ whole * 2**128)",
            "/ whole * (2**128 - 2**70))",
        ),
    ),
    *of(
        "tests/engine/mechanisms/published/test_dawa.py",
        (
            "test_the_loss_of_the_partition_is_never_exceeded_by_exact_probabilities",
            "blockveil.engine.mechanisms.published.dawa:Partitioner.exact_loss",
            "max(2 * self.sensitivity, 1)",
            "max(self.sensitivity, 1)",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_keys.py",
        (
            "test_a_destroyed_secret_is_overwritten_and_gone",
            "blockveil.pipeline.releases.keys:KeyStore._wipe",
            "file.write(bytes(SECRET_BYTES))",
            "pass",
        ),
    ),
    *of(
        "tests/pipeline/data/test_known_content.py",
        (
            "test_whatever_changes_is_hashed_again",
            "blockveil.pipeline.data.known_content:_state",
            "of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns",
            "0, 0, 0, 0",
        ),
    ),
)
