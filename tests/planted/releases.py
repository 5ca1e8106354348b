"""Mistakes for claims about releases: charges, keys, what is published and what is kept."""

from tests.planted.mutant import of

MUTANTS = (
    *of(
        "tests/pipeline/releases/test_bits.py",
        (
            "test_few_bits_are_multiplied_in_single_precision_and_the_plan_says_what_rounding_costs",
            "blockveil.pipeline.plan.rounded:_by_content",
            "found[0, lead:] / noise[0, lead:]",
            "found[0, lead:] / noise[-1, lead:]",
            ("covariance",),
        ),
        (
            "test_in_other_shapes_the_plan_has_the_bound_for_records_that_are_all_alike",
            "blockveil.pipeline.plan.rounded:Rounded.unusual",
            "_WORTH_KNOWING if self.by_content is None",
            "1e9 if self.by_content is None",
        ),
        (
            "test_a_warning_names_the_worst_case_until_somebody_says_how_many_records_are_alike",
            "blockveil.pipeline.plan.rounded:Rounded.warning",
            "self.unusual if matters else None",
            "None",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_catch_up.py",
        (
            "test_a_night_that_was_begun_is_finished_under_every_policy",
            "blockveil.pipeline.releases.catch_up:due",
            "for night, state in charges.items()",
            'for night, state in charges.items() if missed != "skip"',
        ),
    ),
    *of(
        "tests/engine/answers/test_learned_spread.py",
        (
            "test_one_record_moves_the_sums_by_no_more_than_their_sensitivity",
            "blockveil.engine.answers.learned_spread:SpreadSums.partial",
            "squares *= 2.0",
            "squares *= 2.2",
        ),
        (
            "test_a_record_is_in_one_ring_wherever_they_lie",
            "blockveil.engine.answers.learned_spread:RingCounts.partial",
            "np.searchsorted(inner, squared)",
            "np.concatenate([np.searchsorted(inner, squared), np.searchsorted(inner, squared / 4)])",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_learning_stages.py",
        (
            "test_the_charge_is_fixed_before_the_records_are_seen",
            "blockveil.pipeline.plan.stages:together",
            "GaussianDP(max(each.mu for each in last))",
            "GaussianDP(min(each.mu for each in last) * 0.9)",
        ),
        (
            "test_each_stage_has_noise_of_its_own_that_all_before_it_decides",
            "blockveil.pipeline.releases.measurement:_stage_digest",
            "return digest.digest()",
            "return name.encode()",
        ),
        (
            "test_no_stage_draws_from_the_key_of_another",
            "blockveil.engine.noise.discrete_gaussian:NoiseKey.of_stage",
            'return NoiseKey(HKDF(hashes.SHA256(), 32, salt=None, info=b"blockveil stage 1" + context)'
            ".derive(self._secret))",
            "return self",
        ),
        (
            "test_missing_values_are_found_before_anything_is_committed",
            "blockveil.pipeline.releases.charged_steps:measure",
            "measurement.exact()",
            "(_commit(books, reservation.charge, tell), measurement.exact())",
        ),
        (
            "test_a_unit_of_several_rows_is_charged_for_all_of_them_in_every_stage",
            "blockveil.pipeline.plan.designing:Designed.charge",
            "else stages.loss",
            "else self.answer.design.loss",
        ),
        (
            "test_what_stands_out_is_judged_by_what_shortening_takes_of_features_that_are_not_related",
            "blockveil.pipeline.report.noise_apart:NoiseApart.at",
            "np.hypot(noise, unrelated)",
            "0.0 * noise",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_large_learning.py",
        (
            "test_blocks_hold_the_bits_of_the_whole",
            "blockveil.pipeline.questions.blocks:ShortenedCovarianceBlocks.last",
            "np.hypot(noise, by_feature.means)",
            "noise",
        ),
        (
            "test_nobody_reads_the_whole_matrix_at_once",
            "blockveil.pipeline.data.derived_noise:diagonal_of",
            "range(0, length, CHUNK_SIDE)",
            "range(0, length, max(CHUNK_SIDE, length))",
        ),
    ),
    *of(
        "tests/pipeline/kinds/quantiles/test_quantile_stages.py",
        (
            "test_both_stages_are_one_charge_of_the_asked_loss_in_the_declared_shares",
            "blockveil.pipeline.kinds.quantiles.learning:QuantileStages.of",
            "together([first.design.loss], [last.design])",
            "last.design.loss",
            ("refuse-add-remove",),
        ),
        (
            "test_the_second_stage_has_another_key_where_the_first_released_other_integers",
            "blockveil.pipeline.releases.measurement:_stage_digest",
            "return digest.digest()",
            "return name.encode()",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_readable_shapes.py",
        (
            "test_shapes_in_a_file_that_no_reader_would_open_are_refused_before_anything_is_committed",
            "blockveil.pipeline.releases.outputs:_with_long_numbers",
            "_LONGEST if isinstance(value, float) else value",
            "value",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_declared_drift.py",
        (
            "test_a_share_is_exceeded_by_more_than_two_standard_deviations_of_its_noise",
            "blockveil.pipeline.report.learned_shape:drift",
            "_SURE * ",
            "0.0 * ",
            ("0.0699-False",),
        ),
    ),
    *of(
        "tests/pipeline/releases/test_fisher_step.py",
        (
            "test_steps_and_errors_are_one_charge_of_the_asked_loss_in_the_declared_shares",
            "blockveil.pipeline.plan.designing:Designed.charge",
            "else stages.loss",
            "else self.answer.design.loss",
        ),
        (
            "test_a_unit_of_several_rows_is_charged_for_all_of_them_in_steps_and_stage",
            "blockveil.pipeline.plan.stages:together",
            "GaussianDP(max(each.mu for each in last))",
            "GaussianDP(min(each.mu for each in last) * 0.1)",
            ("3",),
        ),
        (
            "test_samplers_of_both_are_paid_for_at_a_large_epsilon",
            "blockveil.pipeline.kinds.gradients.stage_after:FisherStage.of",
            "ApproxDP(whole.epsilon, max(whole.delta - needed, whole.delta / 2.0))",
            "whole",
        ),
        (
            "test_the_stage_has_noise_of_its_own_that_all_steps_decide",
            "blockveil.pipeline.releases.training_steps:StepwiseMeasurement._after",
            "key.of_stage(bound)",
            'key.of_stage(b"fisher")',
        ),
        (
            "test_neighbours_are_never_further_apart_than_is_charged_at_any_weights",
            "blockveil.engine.answers.logistic_moments:LogisticMomentsQuery._of",
            "self.moment.partial(vectors, 0, len(vectors), len(vectors), tiles)",
            "[2 * each for each in self.moment.partial(vectors, 0, len(vectors), len(vectors), tiles)]",
        ),
        (
            "test_an_audit_sends_neighbours_through_steps_and_stage_and_refutes_a_charge_without_it",
            "blockveil.pipeline.study.replay:_with_stage",
            "hypot(pair.loss, own(pair.one, pair.other))",
            "pair.loss",
        ),
    ),
    *of(
        "tests/engine/estimates/test_shortening.py",
        (
            "test_a_variance_that_falls_behind_the_pilot_is_stated_for_that_feature_alone",
            "blockveil.engine.estimates.shortening:Shortening.taken",
            "np.maximum(self.unshortened[0] - variances, 0.0)",
            "np.zeros(noise.size)",
        ),
        (
            "test_of_a_feature_that_no_pilot_saw_a_quarter_may_hide",
            "blockveil.engine.estimates.shortening:Shortening.taken",
            "usual + UNSEEN * size",
            "usual",
        ),
        (
            "test_of_an_earlier_night_its_own_shares_are_stated_where_the_rings_allow_it",
            "blockveil.engine.estimates.shortening:Shortening.taken",
            "self.known * size",
            "np.zeros(noise.size)",
        ),
        (
            "test_errors_are_beside_those_of_noise",
            "blockveil.engine.estimates.shortening:TakenByShortening.beside",
            "_beside(found.mean, self.means)",
            "found.mean",
        ),
    ),
    *of(
        "tests/pipeline/accuracy/test_learned_answers.py",
        (
            "test_a_plan_knows_of_the_night_before_how_far_out_records_lie",
            "blockveil.pipeline.plan.begun_plans:plan_ahead",
            "Begun(earlier=earlier)",
            "Begun()",
        ),
        (
            "test_a_preview_has_the_noise_of_the_shape_that_is_learned",
            "blockveil.pipeline.accuracy.rehearsal:rehearse",
            "small = in_learned_shape(small, population)",
            "pass",
        ),
    ),
    *of(
        "tests/pipeline/verification/test_stated_fisher.py",
        (
            "test_what_is_not_as_stated_is_found",
            "blockveil.pipeline.verification.stated_fisher:FisherCheck.failure",
            "Fraction(row.size) ** 2 + Fraction(of_steps.size) ** 2",
            "Fraction(of_steps.size) ** 2",
            ("without the stage",),
        ),
    ),
    *of(
        "tests/engine/estimates/test_one_step.py",
        (
            "test_errors_are_those_that_noise_of_score_and_fisher_matrix_makes_and_no_5_percent_others",
            "blockveil.engine.estimates.one_step:one_step",
            "+ _along(noise**2, step)",
            "",
        ),
        (
            "test_a_step_from_near_gives_the_largest_likelihood_within_the_stated_second_order",
            "blockveil.engine.estimates.one_step:one_step",
            "+ second * inverse",
            "",
        ),
        (
            "test_a_fisher_matrix_that_noise_hides_gives_no_errors",
            "blockveil.engine.estimates.one_step:one_step",
            "> hidden_below(noise)",
            "> 0.0",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_learned_totals.py",
        (
            "test_standard_errors_hold_what_shortening_takes_of_skewed_records",
            "blockveil.pipeline.kinds.totals.question:TotalsAnswer.arrays",
            "found.beside(means)",
            "found",
        ),
        (
            "test_which_means_stand_out_is_judged_from_the_declared_origin_and_not_from_where_records_were_found",
            "blockveil.pipeline.kinds.totals.totals_table:far_means",
            "means.shift + alone.moved_origin",
            "means.shift",
        ),
        (
            "test_means_in_wide_bounds_are_as_exact_as_in_near_ones_for_one_charge_a_night",
            "blockveil.pipeline.plan.earlier_shape:earlier_shape",
            'shape.learn in (None, "mean")',
            "shape.learn is None",
        ),
    ),
    *of(
        "tests/pipeline/verification/test_stated_stages.py",
        (
            "test_what_is_not_as_stated_is_found",
            "blockveil.pipeline.verification.stated_stages:Stages.failure",
            'None if self._shortened() else "what shortening takes is not what its rings say"',
            "None",
            ("less that was lost",),
        ),
    ),
    *of(
        "tests/pipeline/releases/test_nights_that_learn.py",
        (
            "TestWhichNightIsLearnedFrom::test_never_one_that_was_withdrawn",
            "blockveil.pipeline.plan.earlier_shape:_newest",
            "digests.pop(name, None)",
            "pass",
        ),
        (
            "TestWhichNightIsLearnedFrom::test_the_newest_before_its_date",
            "blockveil.pipeline.plan.earlier_shape:_newest",
            "name >= release_id",
            "False",
        ),
        (
            "TestWhichNightIsLearnedFrom::test_none_whose_content_the_ledger_does_not_know",
            "blockveil.pipeline.plan.earlier_shape:earlier_shape",
            "except StoreError as error:",
            "except ZeroDivisionError as error:",
        ),
        (
            "TestBegunNight::test_it_is_finished_with_the_bits_of_one_that_nothing_ended",
            "blockveil.pipeline.plan.begun_plans:begun_of",
            "None if stated is None else EarlierShape.of(stated)",
            "earlier_shape(loaded, ledger, release_id)",
        ),
        (
            "test_what_a_night_costs_does_not_follow_from_whether_it_learns_from_another",
            "blockveil.pipeline.kinds.spread.learning_night:Learning.of",
            "max(each.mu for each in losses)",
            "losses[earlier is not None].mu",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_continual.py",
        (
            "test_all_nights_are_paid_by_the_first_and_each_has_a_key_of_its_own",
            "blockveil.pipeline.ledger.shared_nights:paid_by",
            "return str(first.charge_id)",
            "return None",
            ("add-remove", "covariance"),
        ),
        (
            "test_records_that_do_not_begin_with_those_of_the_night_before_are_refused",
            "blockveil.pipeline.data.history:_found",
            "wanted[len(ends)] == digest:",
            "wanted[len(ends)]:",
        ),
        (
            "test_persons_with_many_rows_are_protected_over_all_nights_on_which_their_rows_arrive",
            "blockveil.pipeline.plan.grouping:charge_of_a_unit",
            "Loss(rows * row.mu",
            "Loss(row.mu",
        ),
        (
            "test_another_plan_cannot_join_the_nights_and_the_difference_is_shown",
            "blockveil.pipeline.ledger.shared_nights:nights",
            "!= ours:",
            "is None:",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_directions_release.py",
        (
            "test_directions_are_released_near_the_truth_and_charged_once",
            "blockveil.engine.mechanisms.directions.exponential:Exponential.design",
            "loss = Loss(0.0, epsilon, total_variation)",
            "loss = Loss(0.0, epsilon / problem.directions, total_variation)",
            ("exponential",),
        ),
    ),
    *of(
        "tests/pipeline/releases/test_keys.py",
        (
            "test_a_secret_is_private_on_the_disk_and_stays_the_same",
            "blockveil.pipeline.releases.keys:KeyStore._link",
            "os.O_EXCL, 0o600)",
            "os.O_EXCL, 0o644)",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_large.py",
        (
            "test_blocks_hold_the_bits_of_the_whole",
            "blockveil.pipeline.data.derived_noise:DerivedDeviations.beside",
            "covariance_deviation(value + moved, ",
            "covariance_deviation(value, ",
            ("covariance",),
        ),
        (
            "test_a_mixing_shape_is_refused_before_anything_is_read_where_the_answer_is_too_large",
            "blockveil.pipeline.plan.planning:_check_blocks",
            "plan.answer.work(rows).blocked and plan.answer.blocks(rows) is None",
            "False",
        ),
        (
            "test_standard_deviations_of_a_large_matrix_are_read_in_parts_and_not_stored",
            "blockveil.pipeline.data.derived_noise:DerivedDeviations.beside",
            "self._units[1][slice(*columns)]",
            "self._units[1][: columns[1] - columns[0]]",
            ("second-moment",),
        ),
    ),
    *of(
        "tests/pipeline/releases/test_restored_ledger.py",
        (
            "test_a_night_that_a_backup_by_the_book_forgot_is_not_drawn_again",
            "blockveil.pipeline.ledger.restoring:_has",
            "not seen.sequence or",
            "True or",
            ("sqlite",),
        ),
    ),
    *of(
        "tests/pipeline/releases/test_lost_ledger.py",
        (
            "test_a_restored_ledger_that_is_older_than_a_release_spends_nothing_until_it_is_put_right",
            "blockveil.pipeline.releases.charged_steps:reserve",
            "lost_ledger.require_none(plan.loaded, ledger)",
            "pass",
        ),
        (
            "test_a_budget_in_a_lost_ledger_is_granted_only_with_a_reason_that_stays",
            "blockveil.pipeline.releases.lost_ledger:check_grant",
            "if found is None:",
            "if True:",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_opening_what_was_sent.py",
        (
            "test_a_release_that_was_changed_in_the_store_is_refused",
            "blockveil.pipeline.data.released:open_release",
            "_check(partial(_known, target, members), attributes, target)",
            "pass",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_release.py",
        (
            "test_a_night_releases_count_mean_and_covariance_near_the_truth",
            "blockveil.engine.estimates.matrices:covariance",
            "raw.value / divisor - np.outer(shift, shift)",
            "raw.value / divisor",
        ),
        (
            "test_a_missing_value_voids_the_reservation_and_shows_no_value",
            "blockveil.pipeline.releases.charged_steps:abandon",
            "voided = books.ledger.void_if_reserved(reservation.charge.charge_id, reason)",
            "voided = False",
        ),
        (
            "test_records_that_change_before_a_lost_part_is_read_again_are_never_released",
            "blockveil.pipeline.releases.charged_steps:measure",
            "dataset.check_unchanged(committed=True)",
            "pass",
        ),
        (
            "test_an_attempt_that_lives_beside_another_one_is_never_swept",
            "blockveil.pipeline.base.staging:_removed",
            "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
            "pass",
        ),
        (
            "test_a_place_without_locks_is_refused_before_anything_is_charged",
            "blockveil.pipeline.base.staging:claim",
            "fcntl.flock(descriptor, fcntl.LOCK_EX)",
            "pass",
        ),
    ),
    *of(
        "tests/pipeline/releases/test_uploading.py",
        (
            "test_pruning_removes_what_was_sent_too_and_goes_on_after_a_failure",
            "blockveil.pipeline.releases.retention:prune",
            "if each.sent is not None:",
            "if False:",
        ),
        (
            "test_a_kill_at_each_object_leaves_nothing_visible_or_all_and_is_finished",
            "blockveil.pipeline.releases.destination:Destination.send",
            "files = _files(published.path)\n",
            (
                "files = _files(published.path)\n    self._create(release_id, _pointer(release_id), "
                "published.pointer, there=found is not None)\n"
            ),
        ),
    ),
    *of(
        "tests/pipeline/report/test_report.py",
        (
            "test_xarray_opens_a_release_with_names_and_attributes",
            "blockveil.pipeline.data.zarr_arrays:create_array",
            "dimension_names=dimensions",
            "dimension_names=None",
        ),
        (
            "test_a_release_with_hardly_any_records_carries_a_warning",
            "blockveil.pipeline.releases.outputs:_reliable",
            'max(4.0 * float(arrays["count_standard_deviation"][0]), 0.0)',
            '-float("inf")',
        ),
    ),
)
