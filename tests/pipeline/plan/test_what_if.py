"""What-if questions: any release can be planned, none can name a place."""

import copy
from datetime import date

import pytest
from pydantic import ValidationError

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.what_if import WhatIf, plan_of, question_of
from tests.house import support

NIGHT = date(2026, 11, 20)


def question(folder, **options):
    return question_of(load_config(support.write_config(folder, **options)).config)


def test_a_question_filled_from_a_reviewed_config_plans_the_same_release(tmp_path):
    asked = WhatIf.model_validate(question(tmp_path))
    assert plan_of(asked, NIGHT).charge == make_plan(load_config(tmp_path / "people.toml"), NIGHT).charge
    assert not set(question(tmp_path)) & {"data", "cluster", "output", "approval"}


@pytest.mark.parametrize("section", ["data", "output", "cluster", "approval"])
def test_a_question_cannot_name_a_place(tmp_path, section):
    with pytest.raises(ValidationError, match="extra_forbidden"):
        WhatIf.model_validate({**question(tmp_path), section: {"store": "/etc", "ledger": "x"}})


ELLIPSOID = {
    "kind": "ellipsoid",
    "shape": "secret.npy",
    "features": [{"name": "a", "origin": 0.0}, {"name": "b", "origin": 0.0}],
}
DIRECTIONS = {
    "kind": "mvg-exact",
    "allocation": {"kind": "uniform"},
    "directions": "secret.npy",
    "directions_source": "public",
}
GRADIENTS = {
    "kind": "gradients",
    "rows_at_most": 500,
    "missing": "refuse",
    "clipping_norm": 1.0,
    "geometry": {"kind": "box", "origin": "midpoint", "features": [{"name": "a", "lower": 0, "upper": 1}]},
    "model": {"loss": "logistic", "target": {"name": "y", "classes": 2}, "weights": "secret.npz"},
}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("key", "value", "pin", "named"),
    [
        ("query.geometry", ELLIPSOID, "shape_sha256", "query.geometry.shape"),
        ("mechanism", DIRECTIONS, "directions_sha256", "mechanism.directions"),
        ("query", GRADIENTS, "model.weights_sha256", "query.model.weights"),
    ],
)
def test_a_question_cannot_name_a_file_nor_learn_whether_it_is_there(
    tmp_path, monkeypatch, there, key, value, pin, named
):
    asked = question(tmp_path)
    monkeypatch.chdir(tmp_path)
    if there:
        for name in ("secret.npy", "secret.npz"):
            (tmp_path / name).write_bytes(b"not a matrix")
    place, _, last = key.rpartition(".")
    (asked[place] if place else asked)[last] = copy.deepcopy(value)
    section, _, last = f"{key}.{pin}".rpartition(".")
    pinned = asked
    for part in section.split("."):
        pinned = pinned[part]
    pinned[last] = "0" * 64
    with pytest.raises(ConfigError, match="names no files") as refused:
        plan_of(WhatIf.model_validate(asked), NIGHT)
    assert refused.value.value == f"{named} names a file"


def test_rules_across_sections_hold_for_questions_too(tmp_path):
    asked = question(tmp_path)
    asked["privacy"]["delta"] = 0.01
    with pytest.raises(ConfigError, match="rows_at_most"):
        plan_of(WhatIf.model_validate(asked), NIGHT)
