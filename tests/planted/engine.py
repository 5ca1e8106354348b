"""Mistakes for claims about sums, noise, sensitivities and what is read of a release."""

from tests.planted.mutant import Mutant, of

_HISTOGRAMS = "mechanisms.counts.histogram_strategy:HistogramStrategy"
_ANSWERS = "mechanisms.counts.workload_answers"

MUTANTS = (
    *of(
        "tests/engine/answers/test_column_bins.py",
        (
            "test_each_value_is_in_the_one_bin_that_its_borders_name",
            "blockveil.engine.answers.column_bins:EdgeBins.places",
            'side="left"',
            'side="right"',
        ),
        (
            "test_no_neighbours_differ_by_more_than_the_sensitivity_and_some_by_all_of_it",
            "blockveil.engine.kinds.histograms.problem:Histograms._changes",
            "else 2",
            "else 1",
        ),
    ),
    *of(
        "tests/engine/answers/test_cost.py",
        (
            "test_a_cut_fits_and_its_layout_covers_all_records",
            "blockveil.engine.answers.layout:row_ranges",
            "cuts = [round(i * chunks / count) * chunk_rows for i in range(count)] + [rows]",
            (
                "cuts = [round(i * chunks / count) * chunk_rows for i in range(count)] + [rows // chunk_rows * "
                "chunk_rows]"
            ),
        ),
    ),
    *of(
        "tests/engine/answers/test_eight_bit.py",
        (
            "test_a_wrong_product_is_refused",
            "blockveil.engine.answers.eight_bit:_compare",
            "np.all(sums == exact)",
            "np.allclose(sums, exact)",
        ),
        (
            "test_an_exact_product_that_is_faster_is_chosen_and_for_halves_where_four_of_them_are",
            "blockveil.engine.answers.eight_bit:choose",
            "double / _PRODUCTS_OF_HALVES",
            "double",
        ),
    ),
    *of(
        "tests/engine/answers/test_gram.py",
        (
            "test_a_sum_beyond_32_bits_fails_and_never_wraps_around",
            "blockveil.engine.answers.graph:_added",
            "dtype=np.int64",
            "dtype=parts[0].dtype",
        ),
        (
            "test_sums_that_fit_wait_in_32_bits_and_give_the_same_release",
            "blockveil.engine.answers.graph:_partial",
            "_narrowed(tile) if narrow else tile",
            "tile",
        ),
    ),
    *of(
        "tests/engine/answers/test_public_encoder.py",
        (
            "test_a_record_has_the_same_bits_alone_shuffled_and_in_any_batch",
            "blockveil.engine.answers.public_encoder:OnnxEncoder.of",
            "self._alone(record)",
            "self._alone(record - values.mean(axis=0))",
        ),
    ),
    *of(
        "tests/engine/answers/test_step_records.py",
        (
            "test_no_neighbour_moves_the_sums_of_fixed_batches_further_than_is_claimed",
            "blockveil.engine.answers.step_records:FixedBatches.most",
            "-(-steps // self.count)",
            "max(1, steps // self.count)",
        ),
        (
            "test_a_sampled_step_loses_no_more_than_the_accountant_says_by_all_samples",
            "blockveil.engine.guarantees.profiles:_amplified",
            "return q * gaussian_profile",
            "return q**2 * gaussian_profile",
        ),
    ),
    *of(
        "tests/engine/estimates/test_chosen_bounds.py",
        (
            "test_the_bounds_are_the_outer_ends_of_the_outermost_bins_that_stand_out",
            "blockveil.engine.estimates.chosen_bounds:choose_bounds",
            "float(lower[first]), float(upper[last])",
            "float(upper[first]), float(lower[last])",
        ),
    ),
    *of(
        "tests/engine/estimates/test_estimates.py",
        (
            "test_a_public_count_is_used_as_it_is",
            "blockveil.engine.estimates.matrices:covariance",
            "float(value[0, 0]) if public_count is None else float(public_count)",
            "float(value[0, 0])",
        ),
    ),
    *of(
        "tests/engine/estimates/test_shrunk_spectrum.py",
        (
            "test_its_error_over_that_of_cutting_is_as_the_page_says",
            "blockveil.engine.estimates.shrunk_spectrum:shrunk_spectra",
            "np.sum(values, axis=1)",
            "np.sum(np.maximum(values, 0.0), axis=1)",
        ),
    ),
    *of(
        "tests/engine/estimates/test_simulated.py",
        (
            "test_simulated_errors_of_a_second_moment_are_those_before_and_after_post_processing",
            "blockveil.engine.estimates.simulated:second_moment",
            "stand_in + _noise",
            "stand_in + 0.9 * _noise",
        ),
    ),
    *of(
        "tests/engine/mechanisms/published/test_buckets.py",
        (
            "test_the_losses_of_both_steps_are_within_epsilon_and_near_it",
            "blockveil.engine.mechanisms.published.buckets:Dawa.design",
            "left / partitioner.records",
            "left",
        ),
    ),
    *of(
        "tests/engine/mechanisms/published/test_dawa.py",
        (
            "test_costs_in_units_are_floors_of_exact_costs_and_move_by_the_sensitivity_at_most",
            "blockveil.engine.mechanisms.published.dawa:Partitioner.sensitivity",
            "(2 - 2 * self.longest)",
            "(1 - self.longest)",
        ),
        (
            "test_the_partition_is_the_cheapest_of_all_with_ties_to_short_last_buckets",
            "blockveil.engine.mechanisms.published.dawa:least_cost_partition",
            "min(options)",
            "min(options[::-1], key=lambda each: each[0])",
        ),
        (
            "test_every_candidate_bucket_gets_its_noise",
            "blockveil.engine.mechanisms.published.dawa:Partitioner.partition",
            "self.costs(counts) + noise",
            "self.costs(counts) + noise * (np.arange(self.levels) > 0)[:, None]",
        ),
    ),
    *of(
        "tests/engine/mechanisms/counts/test_histogram_strategy.py",
        (
            "test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records",
            "blockveil.engine.mechanisms.counts.histogram_strategy:HistogramStrategy.l2",
            "(numbers % 2.0, numbers**2) if replaced",
            "(numbers % 2.0,) if replaced",
        ),
        (
            "test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records",
            "blockveil.engine.mechanisms.counts.histogram_strategy:HistogramStrategy.l2",
            "2.0 * replaced * within",
            "1.0 * replaced * within",
        ),
    ),
    *of(
        "tests/engine/mechanisms/counts/test_residual_strategy.py",
        (
            "test_every_set_of_axes_has_the_noise_that_was_planned_whatever_the_bound_of_records",
            "blockveil.engine.mechanisms.counts.residual_strategy:ResidualStrategy.multiples",
            "(max(self._entries) // own).bit_length() - 1",
            "0",
        ),
        (
            "test_answers_are_the_whole_numbers_of_explicit_matrices",
            "blockveil.engine.mechanisms.counts.residual_strategy:ResidualStrategy.multiples",
            "bit_length() - 1",
            "bit_length()",
        ),
        (
            "test_classes_of_symmetric_axes_have_the_distances_of_all_sets_of_axes",
            "blockveil.engine.mechanisms.counts.symmetric_axes:_coefficients",
            "(-1) ** (a - i)",
            "(-1) ** a",
        ),
        (
            "test_more_axes_than_are_gone_through_have_a_bound_that_holds",
            "blockveil.engine.mechanisms.counts.residual_strategy:ResidualStrategy._replaced",
            "-1.0 / (min(self.tables.shape(axes)) - 1.0)",
            "-1.0 / min(self.tables.shape(axes))",
        ),
        (
            "test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records",
            "blockveil.engine.mechanisms.counts.residual_strategy:ResidualStrategy._replaced",
            "np.min(products[:-1])",
            "np.max(products[:-1])",
        ),
    ),
    *of(
        "tests/engine/mechanisms/directions/test_directions.py",
        (
            "test_the_stated_bound_of_the_distance_holds_in_exact_numbers",
            "blockveil.engine.mechanisms.directions.exact_bingham:_GAUSSIAN_BITS",
            "640",
            "320",
        ),
        (
            "test_no_record_moves_the_density_on_the_circle_by_more_than_epsilon",
            "blockveil.engine.mechanisms.directions.exponential:Exponential.design",
            "else 0.5",
            "else 1.0",
        ),
    ),
    *of(
        "tests/engine/mechanisms/k_norm/test_ball_noise.py",
        (
            "test_a_change_of_length_k_costs_at_most_k_and_a_step_over_the_scale",
            "blockveil.engine.mechanisms.k_norm.ball_noise:BallNoise.privacy_scale",
            "2.0**bits / numerator",
            "2.0**self.bits",
        ),
        (
            "test_lengths_have_their_exact_probabilities_and_a_scale_wrong_by_5_percent_is_rejected",
            "blockveil.engine.mechanisms.k_norm.ball_noise:BallNoise._answer",
            " - (sum(map(abs, entries)) << _ROOT_BITS)",
            "",
        ),
    ),
    *of(
        "tests/engine/mechanisms/k_norm/test_cube_noise.py",
        (
            "test_no_two_rows_whose_entries_differ_by_k_have_probabilities_more_than_k_over_the_scale_apart",
            "blockveil.engine.mechanisms.k_norm.cube_noise:CubeNoise.privacy_scale",
            "self.scale *",
            "self.scale * self.entries *",
        ),
        (
            "test_the_largest_entry_has_its_exact_probabilities_and_a_scale_wrong_by_5_percent_is_rejected",
            "blockveil.engine.mechanisms.k_norm.cube_noise:CubeNoise._radii",
            "(self.entries + 1)",
            "self.entries",
        ),
    ),
    *of(
        "tests/engine/noise/test_banded.py",
        (
            "test_no_neighbour_moves_what_is_drawn_for_further_than_is_claimed",
            "blockveil.engine.kinds.gradients.problem:GradientProblem.l2_of_the_band",
            "math.sqrt(band.squared_norm)",
            "band.weights[0]",
        ),
    ),
    *of(
        "tests/engine/noise/test_level_strategy.py",
        (
            "test_errors_are_close_to_the_best_real_factorisations",
            "blockveil.engine.noise.level_strategy:least_noise",
            "min(found for",
            "max(found for",
        ),
    ),
    *of(
        "tests/engine/records/test_one_pass.py",
        (
            "test_records_of_every_type_have_the_same_integers_under_every_option",
            "blockveil.engine.records.one_pass:OnePass._pieces",
            "records.dtype in types and ",
            "",
            ("f8", "narrow", "float32"),
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_box_moments.py",
        (
            "test_what_is_called_attained_is_the_distance_of_two_records_of_the_box",
            "blockveil.engine.sensitivity.box_moments:_largest_square",
            "best = max(best, _between_ends(total, rest, float(far), float(near), constant))",
            "pass",
        ),
        (
            "test_above_sixteen_different_features_no_climb_leaves_the_bound_and_corners_come_close_to_it",
            "blockveil.engine.sensitivity.box_moments:_between",
            "np.argsort(-classes.near",
            "np.argsort(classes.near",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_rotation.py",
        (
            "test_a_certified_bound_holds_at_every_corner_and_is_near_the_worst",
            "blockveil.engine.sensitivity.rotated_box:_certified",
            "np.sum(diagonal)",
            "np.sum(diagonal[1:])",
        ),
    ),
    *of(
        "tests/engine/kinds/totals/test_totals_problem.py",
        (
            "test_where_a_record_is_replaced_the_noise_of_a_box_is_the_same_about_every_origin",
            "blockveil.engine.kinds.totals.problem:Totals.change",
            "if self.widths is not None:",
            "if False:",
        ),
        (
            "test_no_other_share_of_the_count_has_a_smaller_worst_error_of_the_means",
            "blockveil.engine.kinds.totals.problem:Totals.with_count",
            "sqrt(of_sums) * alone)",
            "sqrt(of_sums))",
        ),
    ),
    Mutant(
        "src/blockveil/testing/mechanism.py::test_the_loss_is_at_most_the_target",
        "blockveil.engine.noise.additive:pure_design",
        "usable = usable_epsilon(guarantee)",
        "usable = 1.01 * usable_epsilon(guarantee)",
        run="tests/engine/mechanisms/test_mechanism_contracts.py::TestLaplace::test_the_loss_is_at_most_the_target",
    ),
    Mutant(
        "src/blockveil/testing/mechanism.py::test_the_loss_is_that_of_the_noise_it_draws",
        "blockveil.engine.noise.additive:pure_design",
        "scale = sensitivity.bound",
        "scale = 0.95 * sensitivity.bound",
        run=(
            "tests/engine/mechanisms/test_mechanism_contracts.py::TestLaplace::test_the_loss_is_that_of_the_"
            "noise_it_draws"
        ),
    ),
    *(
        Mutant(
            "src/blockveil/testing/mechanism.py::"
            "test_rounding_is_charged_in_every_entry_in_which_two_neighbours_differ",
            f"blockveil.engine.{where}",
            old,
            new,
            run=(
                f"tests/engine/mechanisms/test_mechanism_contracts.py::Test{contract}::"
                "test_rounding_is_charged_in_every_entry_in_which_two_neighbours_differ"
            ),
        )
        for contract, where, old, new in (
            ("HistogramResiduals", f"{_HISTOGRAMS}.changing", "sum(self.sizes) + len(self.sizes) + 1", "self.cells[0]"),
            ("Residuals", "mechanisms.counts.residuals:ResidualNoise.measured", "tables.entries", "tables.cells // 2"),
            ("MatrixMechanism", "mechanisms.counts.matrix_mechanism:ProductStrategy.changing", "else 2", "else 1"),
            ("HierarchicalGaussian", "mechanisms.published.hierarchy:Tree.changing", "else 2", "else 1"),
            ("HierarchicalLaplace", f"{_ANSWERS}:Hierarchical._blocks", "each * tree.levels)", "each)"),
            ("Gaussian", "kinds.marginals.problem:Marginals.spread", " * len(self.tables.tables)", ""),
            ("JointDiagonal", "noise.additive:whole_shifts", "/ 2.0", "/ 4.0"),
            ("KNorm", "mechanisms.k_norm.norm_noise:_of_gradient", "+ 1.0", "+ 0.0"),
            ("Laplace", "noise.additive:laplace_design", "grid, spread.changing", "grid, 1.0"),
        )
    ),
    Mutant(
        "src/blockveil/testing/mechanism.py::"
        "test_steps_that_are_coarser_than_planned_are_told_however_many_records_are_declared",
        "blockveil.engine.noise.entry_noise:_excess",
        "np.ceil(",
        "np.rint(",
        run=(
            "tests/engine/mechanisms/test_mechanism_contracts.py::TestShapedGaussian::"
            "test_steps_that_are_coarser_than_planned_are_told_however_many_records_are_declared"
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_moment_diagonal.py",
        (
            "test_whole_shifts_of_what_is_shared_cost_no_more_than_is_charged",
            "blockveil.engine.noise.additive:whole_shifts",
            "sqrt(s * (1.0 + s * squares))",
            "sqrt(s)",
        ),
    ),
    *of(
        "tests/engine/estimates/test_noisy_moments.py",
        (
            "test_with_large_noise_at_most_seven_of_a_hundred_releases_state_an_interval_that_is_wrong",
            "blockveil.engine.estimates.noisy_moments:_is_linear",
            "linear & sized & np.isfinite(here)",
            "np.isfinite(here)",
            ("2000",),
        ),
    ),
    *of(
        "tests/engine/audit/test_audit_power.py",
        (
            "test_each_line_of_an_audit_says_what_it_would_have_shown_or_that_it_is_no_evidence",
            "blockveil.engine.audit.power:Power.evidence",
            "min(self.by_trials, self.by_profile) < inf",
            "True",
        ),
    ),
    *of(
        "tests/engine/mechanisms/counts/test_range_residuals.py",
        (
            "test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records",
            "blockveil.engine.mechanisms.counts.range_residuals:RangeResiduals._largest_distance",
            "- 2.0 * product",
            "- product",
            ("replace-one",),
        ),
        (
            "test_kinds_of_records_that_are_left_out_are_bounded",
            "blockveil.engine.workloads.ordered_axes:OrderedAxis.beyond",
            "np.min(self.gram)",
            "np.max(self.gram)",
        ),
        (
            "test_pairs_of_records_that_are_kept_are_as_far_apart_as_any",
            "blockveil.engine.workloads.ordered_axes:OrderedAxis.pairs",
            "(found[:, 0] > best[0]) | (found[:, 1] > best[1])",
            "(found[:, 0] > best[0]) & (found[:, 1] > best[1])",
        ),
    ),
    *of(
        "tests/engine/sensitivity/test_diagonal_sizes.py",
        (
            "test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far",
            "blockveil.engine.sensitivity.diagonal_sizes:added_square",
            "(constant + p) ** 2 + squares",
            "p**2 + squares",
        ),
        (
            "test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far",
            "blockveil.engine.sensitivity.diagonal_sizes:added_square",
            "count.times * count.own, ",
            "1.5 * count.times * count.own, ",
        ),
        (
            "test_whole_steps_of_the_least_size_move_no_neighbour_further_than_is_charged",
            "blockveil.engine.sensitivity.diagonal_sizes:added_sensitivity",
            "sqrt(diagonal) / LEAST_STEP if",
            "0.0 if",
        ),
        (
            "test_replacing_a_record_of_whole_numbers_moves_no_further",
            "blockveil.engine.sensitivity.diagonal_sizes:replaced_bound",
            "(gain - 1.0) * squares",
            "0.5 * (gain - 1.0) * squares",
        ),
    ),
    *of(
        "tests/engine/mechanisms/test_shaped_diagonal.py",
        (
            "test_the_stated_noise_of_a_covariance_is_that_of_drawn_noise_which_its_count_shares",
            "blockveil.engine.estimates.matrices:covariance",
            "spread + 2.0 * factor",
            "spread + 0.0 * factor",
        ),
        (
            "test_auto_takes_it_and_its_error_is_near_a_bound",
            "blockveil.engine.mechanisms.shaped_diagonal:_searched",
            "np.geomspace(2.0, 8.0 * d, 32)",
            "np.geomspace(2.0, 3.0, 32)",
        ),
    ),
    *of(
        "tests/engine/noise/test_discrete_laplace.py",
        (
            "test_digits_zero_and_sign_make_exactly_the_two_sided_law",
            "blockveil.engine.noise.discrete_laplace:zero_threshold",
            "(1 - ratio) / (1 + ratio)",
            "(1 - ratio)",
        ),
    ),
    *of(
        "tests/engine/noise/test_key_streams.py",
        (
            "test_both_steps_of_dawa_on_one_stream_are_refused_where_the_design_is_made",
            "blockveil.engine.mechanisms.published.buckets:BucketsDesign.__post_init__",
            "len(set(self.streams)) < len(self.streams)",
            "False",
        ),
    ),
)
