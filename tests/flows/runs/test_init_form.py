"""The form that writes configs from pasted names: it returns text, opens no file, and says what is wrong at once."""

from __future__ import annotations

import pytest
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from blockveil.flows.runs.init_flow import init
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import deployments
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.data.ingest.files import SourceFile
from tests.house import support

FORM = {
    "dataset": "visits",
    "names": "person,day,age,`cost`,urgent",
    "columns": "age: 0 to 120\n`cost`: 0 to 1e4\nurgent: yes-no",
    "unit": "one person",
    "unit_column": "person",
    "unit_type": "whole",
    "rows_per_unit": "3",
    "rows_at_most": 5000,
    "row_count_public": False,
    "missing": "drop",
    "purpose": "correlations",
    "strictness": "epsilon 1 delta 1e-7",
    "every": "night",
    "first": "2026-12-01",
    "until": "2026-12-31",
}


@pytest.fixture
def form(tmp_path, monkeypatch, prefect):
    """The deployment of the form."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text("")
    made = {each.full_name: each for each in deployments.build(load_deployments(tmp_path))}["init/by-hand"]
    return made.apply()


def page() -> str:
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=["first-configs"])))
    return str(max(found, key=lambda each: str(each.created)).data)


def test_pasted_names_come_back_as_configs_and_no_file_is_opened(form, monkeypatch, tmp_path):
    def opened(_: SourceFile) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr(SourceFile, "open", opened)
    before = sorted(tmp_path.rglob("*"))
    with get_client(sync_client=True) as client:
        assert client.create_flow_run_from_deployment(form, parameters=FORM).parameters["names"] == FORM["names"]
    state = init(**FORM, return_state=True)
    assert state.is_completed(), state.message
    assert "nothing was read, charged or released" in str(state.message)
    text = page()
    assert 'files = ["../records.csv"]' in text
    assert 'name = "`cost`"' in text
    assert "epsilon = 1\ndelta = 1e-07" in text
    assert text.count("A guess about one bit of one person is right at most") == 3
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"purpose": "tables", "ways": 2, "columns": "age: 0 to 120 in 6\nurgent: yes-no"}, 'kind = "marginals"'),
        ({"purpose": "training", "target": "age", "examples": 4000}, "examples = 4000"),
    ],
)
def test_the_form_knows_tables_and_training_too(form, changes, made):
    state = init(**{**FORM, **changes}, return_state=True)
    assert state.is_completed(), state.message
    assert made in page()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"names": "/etc/passwd"}, "no such column"),
        ({"names": ""}, "no columns"),
        ({"columns": "age: 120 to 0"}, "lowest value comes first"),
        ({"columns": "age"}, "names no column"),
        ({"rows_per_unit": "many"}, "rows_per_unit"),
        ({"rows_per_unit": None}, "rows_per_unit is not answered"),
        ({"unit_column": None, "unit_type": None, "rows_per_unit": None}, "unit_column is not answered"),
        ({"row_count_public": None, "rows_per_unit": "1"}, "row_count_public is not answered"),
        ({"until": "someday"}, "until"),
        ({"until": None}, "every is not answered"),
        ({"strictness": "severe"}, "strictness"),
        ({"rows_at_most": "5000"}, "rows_at_most"),
        ({"dataset": "../elsewhere"}, "dataset"),
    ],
)
def test_what_is_wrong_is_said_with_the_reason(form, changes, reason):
    state = init(**{**FORM, **changes}, return_state=True)
    assert state.is_failed()
    assert reason in str(state.message)
    assert "Traceback" not in str(state.message)
