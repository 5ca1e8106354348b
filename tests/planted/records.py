"""Mistakes for claims about records: whose they are, how they are stored and what is read of them."""

from tests.planted.mutant import of

MUTANTS = (
    *of(
        "tests/pipeline/data/ingest/test_appending.py",
        (
            "test_the_bound_on_the_rows_of_a_unit_holds_over_all_appends",
            "blockveil.pipeline.data.ingest.units:_Choose.most",
            "left[places[there]] -= stored[there]",
            "pass",
        ),
        (
            "test_a_file_that_changed_and_a_copy_under_another_name_are_refused_and_the_store_stays",
            "blockveil.pipeline.data.ingest.repeated_rows:repetition",
            "if name is not None:",
            "if False:",
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_database_kills.py",
        (
            "test_a_table_that_has_changed_since_is_read_from_the_beginning",
            "blockveil.pipeline.data.ingest.ingest_staging:resumed",
            "progress is not None and progress.spec == spec",
            "progress is not None",
            ("sqlite",),
        ),
        (
            "test_an_ingest_of_a_table_that_is_killed_again_and_again_gives_the_same_bits",
            "blockveil.pipeline.data.ingest.source_rows:to_store",
            "part=part, row=row, ",
            "part=part, row=max(row - 1, 0), ",
            ("sqlite", "rows"),
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_databases.py",
        (
            "test_a_view_is_refused_because_it_may_mix_persons",
            "blockveil.pipeline.data.ingest.database_table:_declared",
            "if not base:",
            "if False:",
            ("sqlite",),
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_ingest.py",
        (
            "test_rows_of_a_unit_are_bounded_and_the_store_says_so",
            "blockveil.pipeline.data.ingest.units:_Kept.best",
            "rank < most[owners]",
            "rank <= most[owners]",
        ),
        (
            "test_all_rows_of_a_unit_become_one_record",
            "blockveil.pipeline.data.ingest.units:_Aggregate.result",
            " if self._mean else self._sums",
            "",
        ),
        (
            "test_the_store_is_private_complete_checksummed_and_has_its_layout",
            "blockveil.pipeline.data.ingest.store_writer:_codecs",
            "(ZstdCodec(level=1), Crc32cCodec())",
            "(ZstdCodec(level=1),)",
        ),
        (
            "test_the_store_is_private_complete_checksummed_and_has_its_layout",
            "blockveil.pipeline.data.ingest.ingest_run:_ingested",
            "staging.store.chmod(0o700)",
            "staging.store.chmod(0o755)",
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_repeated_rows.py",
        (
            "test_a_file_that_has_one_row_less_often_repeats_nothing",
            "blockveil.pipeline.data.ingest.repeated_rows:RowSets._times_in",
            "self._times[places]",
            "2**30",
        ),
        (
            "test_two_files_of_one_ingest_of_which_one_holds_all_rows_of_the_other_are_refused",
            "blockveil.pipeline.data.ingest.repeated_rows:repetition",
            "if pair is not None:",
            "if False:",
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_resume.py",
        (
            "test_an_ingest_that_is_killed_again_and_again_gives_the_same_bits",
            "blockveil.pipeline.data.ingest.source_rows:to_store",
            "part=part, row=row, ",
            "part=part, row=max(row - 1, 0), ",
            ("rows", "parquet"),
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_table_growth.py",
        (
            "test_a_commit_that_changes_rows_that_are_stored_is_refused_and_the_store_stays",
            "blockveil.pipeline.data.ingest.table_growth:new_in",
            "elif not commit.erased:",
            "elif False:",
        ),
    ),
    *of(
        "tests/pipeline/data/ingest/test_units.py",
        (
            "test_a_unit_more_or_less_changes_its_own_rows_alone_and_at_most_k_of_them",
            "blockveil.pipeline.data.ingest.units:_Choose.add",
            "self._numbers(keys)",
            "np.arange(keys.size)",
        ),
        (
            "test_any_order_of_the_rows_gives_the_same_chosen_rows_in_the_same_order",
            "blockveil.pipeline.data.ingest.units:in_order",
            "np.argsort(keys",
            "np.argsort(_units(keys)",
        ),
        (
            "test_each_of_equal_rows_counts_where_rows_are_chosen",
            "blockveil.pipeline.data.ingest.units:_Choose._numbers",
            "return numbers",
            "return np.zeros_like(numbers)",
        ),
    ),
    *of(
        "tests/pipeline/data/test_contribution.py",
        (
            "test_every_form_of_the_guarantee_says_whose_rows_were_bounded_and_how",
            "blockveil.pipeline.data.contribution:Contribution.drops_excess",
            'self.rule == "choose"',
            'self.rule != "choose"',
        ),
        (
            "test_of_a_store_that_nobody_ingested_the_word_of_the_config_is_taken_and_said",
            "blockveil.pipeline.data.contribution:Contribution.of",
            '"declared"',
            '"row"',
        ),
        (
            "test_a_statement_says_how_many_rows_of_a_unit_a_charge_is_for",
            "blockveil.pipeline.ledger.statement:_rows",
            'privacy.get("rows_per_unit", 1)',
            'privacy.get("rows", 1)',
        ),
    ),
    *of(
        "tests/pipeline/data/test_preview.py",
        (
            "test_a_plan_refuses_what_a_run_refuses_and_in_the_same_words",
            "blockveil.pipeline.data.datasets:check_declared",
            "contract.check(loaded.config)",
            "pass",
            ("rows",),
        ),
        (
            "test_stores_of_different_numbers_of_records_give_the_same_bytes",
            "blockveil.pipeline.data.preview:look",
            ".sentence)",
            ".sentence + f\" {len(__import__('zarr').open_array(loaded.store / 'records'))} rows.\")",
        ),
    ),
    *of(
        "tests/pipeline/data/test_zarr_arrays.py",
        (
            "test_a_flipped_bit_is_an_error_and_not_another_number",
            "blockveil.pipeline.data.zarr_arrays:create_array",
            "(ZstdCodec(level=1), Crc32cCodec())",
            "(ZstdCodec(level=1),)",
        ),
    ),
    *of(
        "tests/pipeline/scaffold/test_column_names.py",
        (
            "test_no_byte_behind_the_header_of_a_csv_file_is_asked_for",
            "blockveil.pipeline.scaffold.column_names:_first_line",
            "plain.read(1)",
            "plain.read(2)",
        ),
    ),
)
