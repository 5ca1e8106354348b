"""Mistakes for claims about commands, clusters, services and what listens."""

from tests.planted.mutant import Mutant, of

MUTANTS = (
    *of(
        "tests/flows/base/test_compiled.py",
        (
            "test_a_folder_below_one_that_others_may_write_to_is_not_used",
            "blockveil.flows.base.compiled:_problem",
            "(stat.S_IWGRP | stat.S_IWOTH)",
            "stat.S_IWOTH",
        ),
    ),
    *of(
        "tests/flows/cli/test_cli.py",
        (
            "test_a_bad_config_ends_with_code_two_and_names_the_key",
            "blockveil.flows.cli:_message_and_code",
            "known.in_full",
            "known.value",
        ),
    ),
    *of(
        "tests/flows/cli/test_hostile_arguments.py",
        (
            "test_what_a_ledger_or_a_release_holds_does_not_steer_the_terminal",
            "blockveil.flows.cli.common:say",
            'printable(text, kept="\\n\\t")',
            "text",
        ),
    ),
    *of(
        "tests/pipeline/test_hostile_text.py",
        (
            "TestText::test_a_value_that_steers_is_refused_by_its_key",
            "blockveil.pipeline.config.toml:_check",
            "_hidden(value) and key[-1:] != _ANY_CHARACTER",
            "False",
        ),
    ),
    *of(
        "tests/flows/cli/test_json.py",
        (
            "test_colour_is_for_terminals_whose_user_wants_it",
            "blockveil.flows.cli.common:coloured",
            ' and not os.environ.get("NO_COLOR")',
            "",
        ),
    ),
    *of(
        "tests/flows/cli/test_store_check.py",
        (
            "test_a_form_cannot_learn_what_lies_at_a_place_of_its_choice",
            "blockveil.flows.runs.release_flow:_plan",
            'any(key.partition(".")[0] == "data" for key in overrides)',
            "False",
        ),
    ),
    *of(
        "tests/flows/cluster/test_cluster.py",
        (
            "test_the_total_stays_on_the_cluster_and_the_key_is_in_no_task",
            "blockveil.flows.cluster.distributed_compute:DistributedCompute.forget",
            "self._client.unregister_worker_plugin(_PLUGIN + handle)",
            "pass",
        ),
        (
            "test_scratch_is_gone_after_the_run_and_that_of_dead_runs_before_the_next",
            "blockveil.flows.cluster.scratch:_make",
            "            staging.sweep(home)\n",
            "",
        ),
        (
            "test_no_part_lets_in_who_lacks_the_certificate_of_the_run_and_none_serves_pages",
            "blockveil.flows.cluster.local_workers:_WithoutPages.start_http_server",
            '"""Open no port, where Dask always opens one, without a password and without TLS."""',
            "Scheduler.start_http_server(self, *_args, **_options)",
        ),
    ),
    *of(
        "tests/flows/cluster/test_transport.py",
        (
            "test_one_part_that_is_reached_in_clear_makes_a_cluster_unfit",
            "blockveil.flows.cluster.workers:check_transport",
            'parts += [("scheduler", address) for address in _listened_at(client)]',
            "pass",
        ),
        (
            "test_plan_run_and_report_say_that_a_cluster_is_insecure",
            "blockveil.pipeline.releases.outputs:attributes",
            "if config.in_clear",
            "if False",
        ),
    ),
    *of(
        "tests/flows/runs/test_night_with_ingest.py",
        (
            "test_each_night_brings_in_what_arrived_and_releases_it_in_one_run",
            "blockveil.flows.runs.release_flow:_bring_in",
            "not isinstance(night, NightSection) or night.ingest is None",
            "True",
        ),
    ),
    *of(
        "tests/flows/runs/test_signed_approvals.py",
        (
            "test_a_name_in_the_browser_or_on_the_command_line_is_no_signature",
            "blockveil.flows.runs.release_flow:_ask",
            "if signed:  # whoever",
            "if False:  # whoever",
        ),
    ),
    *of(
        "tests/flows/service/test_admission.py",
        (
            "test_a_change_of_any_field_of_a_deployment_is_named",
            "blockveil.flows.service.admission:differences",
            '"pull_steps", "storage_document_id"',
            '"storage_document_id"',
            ("pull_steps",),
        ),
        (
            "test_a_deployment_that_somebody_has_changed_is_refused_before_anything_of_it_is_used",
            "blockveil.flows.service.admission:admit",
            "if changed:",
            "if False:",
        ),
    ),
    *of(
        "tests/flows/service/test_deployments.py",
        (
            "test_a_night_whose_process_died_is_tried_again_with_growing_waits_and_not_for_ever",
            "blockveil.flows.service.revival:outlook",
            "WAITS[run.run_count - 1]",
            "WAITS[0]",
        ),
    ),
    *of(
        "tests/flows/service/test_login.py",
        (
            "test_the_login_is_printed_when_it_is_asked_for",
            "blockveil.flows.cli.serve_commands:serve",
            "login.configured() or login.kept(login.home())",
            'login.configured() or ""',
        ),
        (
            "test_what_others_could_change_in_a_home_that_they_reach_is_refused",
            "blockveil.flows.service.login:_checked",
            "(place, *_reached(place, found))",
            "(place,)",
        ),
    ),
    *of(
        "tests/flows/service/test_metrics.py",
        (
            "test_whoever_shows_no_token_or_another_one_sees_nothing",
            "blockveil.flows.service.metrics:guarded",
            "hmac.compare_digest(given, expected)",
            'given.startswith(b"Bearer")',
        ),
    ),
    *of(
        "tests/flows/service/test_site_service.py",
        (
            "test_nobody_is_told_anything_without_the_login",
            "blockveil.flows.service.site_service:guarded_pages",
            "not hmac.compare_digest(given, expected)",
            'not given.startswith(b"Basic ")',
        ),
        (
            "test_nothing_can_be_done_but_reading",
            "blockveil.flows.service.site_service:guarded_pages",
            'asked.method not in ("GET", "HEAD")',
            "False",
        ),
    ),
    Mutant(
        "tests/pipeline/ledger/test_postgres.py::test_it_withdraws_no_release",
        "blockveil.pipeline.ledger.roles:role_sql",
        '"true" if budgets else _CHARGES',
        '"true"',
        run="tests/pipeline/ledger/test_postgres.py::TestRole::test_it_withdraws_no_release",
    ),
    *of(
        "tests/test_python_page.py",
        (
            "test_the_lines_of_the_readme_run",
            "blockveil.pipeline.analysis.labelled:table",
            "pd.DataFrame(values, index=indices[0], columns=indices[1])",
            "pd.DataFrame(values)",
        ),
    ),
    *of(
        "tests/flows/service/test_server.py",
        (
            "test_no_route_answers_without_the_login_and_nothing_is_changed_without_a_token_beside_it",
            "blockveil.flows.service.server:_settings",
            "    logins.SERVER: login,\n",
            "",
        ),
        (
            "test_no_route_answers_without_the_login_and_nothing_is_changed_without_a_token_beside_it",
            "blockveil.flows.service.server:_settings",
            "        **_ONLY_ITS_OWN_PAGES,\n",
            "",
        ),
    ),
    *of(
        "tests/pipeline/config/test_unvetted.py",
        (
            "test_plan_ledger_entry_release_and_report_say_what_is_of_another_package",
            "blockveil.pipeline.config.loaded:release_world",
            '{"unvetted": [each.facts for each in config.unvetted]} if config.unvetted else {}',
            "{}",
        ),
    ),
    *of(
        "tests/flows/runs/test_release_flow.py",
        (
            "test_an_unexpected_error_shows_only_its_kind",
            "blockveil.flows.runs.steps:known",
            "UnexpectedError(type(error).__name__, ",
            'UnexpectedError(f"{type(error).__name__}: {error}", ',
        ),
    ),
    *of(
        "tests/test_tutorial.py",
        (
            "test_the_tutorial_works_as_written_and_takes_nine_decisions",
            "blockveil.pipeline.budget.filter:Cap.nights",
            "return self.further(",
            "return 1 + self.further(",
        ),
    ),
)
