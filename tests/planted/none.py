"""Why no mistake is planted for some tests that show claims."""

_APART = "its commands run in processes of their own"
_BESIDE = "leaks are planted beside it"
_NO_CODE = "no function decides it"
_BROWSER = "it needs a browser"
_SERVICE = "it needs a whole service"
_SITE = "tests/end_to_end"

WHY_NONE = {
    "tests/test_documents.py::test_readme_names_the_commands_that_ci_runs": _NO_CODE,
    f"{_SITE}/test_wheel.py::test_the_wheel_holds_the_package_with_its_examples_and_nothing_else": _NO_CODE,
    f"{_SITE}/test_wheel.py::test_the_demo_of_an_installed_package_needs_no_checkout": _APART,
    "tests/test_packaging.py::test_without_extras_a_release_is_planned_granted_made_and_reported": _APART,
    "tests/test_packaging.py::test_what_needs_an_extra_names_it": _APART,
    f"{_SITE}/test_serve.py::test_a_scheduled_night_is_released_soon_after_the_first_start": _SERVICE,
    f"{_SITE}/test_team.py::"
    "test_the_commands_of_the_units_release_a_night_on_an_encrypted_cluster_with_the_ledger_in_postgresql": _SERVICE,
    f"{_SITE}/test_sockets.py::test_all_sockets_of_a_run_refuse_another_account": _APART,
    f"{_SITE}/test_sockets.py::test_all_sockets_of_a_demo_refuse_another_account": _APART,
    f"{_SITE}/test_sockets.py::test_all_sockets_of_a_worker_and_of_a_run_of_it_refuse_another_account": _APART,
    f"{_SITE}/test_sockets.py::test_all_sockets_of_a_service_and_of_a_run_of_it_refuse_another_account": _APART,
    f"{_SITE}/test_non_interference.py::test_a_release_without_prefect_depends_on_nothing_but_the_noise": _BESIDE,
    f"{_SITE}/test_non_interference.py::test_a_release_by_prefect_and_dask_depends_on_nothing_but_the_noise": _BESIDE,
    f"{_SITE}/test_non_interference.py::test_so_do_all_other_queries_and_mechanisms": _BESIDE,
    f"{_SITE}/test_non_interference.py::test_a_planted_leak_is_found": _BESIDE,
    f"{_SITE}/test_browser.py::test_no_page_made_the_browser_ask_another_host": _BROWSER,
    f"{_SITE}/test_perimeter.py::"
    "test_a_temporary_server_wants_a_login_too_and_ends_with_a_killed_owner": "its mistake is a kill",
    f"{_SITE}/test_worker_faults.py::test_a_worker_that_joins_with_other_code_gets_no_task": _APART,
    "tests/engine/answers/test_gram.py::test_a_killed_worker_changes_no_bit": "its mistake is a kill",
}
"""Reasons by test, for all tests of each claim that none of them has a mistake for."""
