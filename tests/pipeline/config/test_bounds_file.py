"""A config takes the bounds of its features from a pinned file, and is refused where the file is not what it names."""

from datetime import date

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config, release_world
from blockveil.pipeline.config.bounds_file import BoundsFile
from blockveil.pipeline.plan import what_if
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.summary import describe
from tests.house import support

RELEASE = "people/covariance-bounds/2026-11-19"
FOUND = BoundsFile.model_validate(
    {
        "release": RELEASE,
        "content_sha256": "ab" * 32,
        "features": [
            {"name": "age", "lower": 16.0, "upper": 128.0},
            {"name": 'in"come', "lower": 0.0, "upper": 2.0**20},
            {"name": "debt", "lower": -(2.0**19), "upper": 2.0**-300},
        ],
    }
)
PLAIN = '{ name = "age" }, { name = "in\\"come" }, { name = "debt" }'
NIGHT = date(2026, 11, 20)


def write(folder, features=PLAIN, extra="", kind="covariance"):
    text = support.CONFIG.format(kind=kind, epsilon=1.0, neighbours="add-remove", cluster='kind = "threads"')
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    listed = f"features = [ {features} ]\n" if features is not None else ""
    shape = f'[query.geometry]\nkind = "box"\norigin = "midpoint"\nbounds = "bounds.toml"\n{extra}{listed}\n'
    path = folder / "people.toml"
    path.write_text(text[:start] + shape + text[end:])
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bounds.toml").write_text(FOUND.text(("A comment.",)))
    return tmp_path


def bounds(path):
    return {each.name: (each.lower, each.upper) for each in load_config(path).config.query.geometry.features}


ALL = {each.name: (each.lower, each.upper) for each in FOUND.features}


@pytest.mark.parametrize("features", [PLAIN, None])
def test_features_take_their_bounds_from_the_file_by_name(folder, features):
    assert bounds(write(folder, features)) == ALL


def test_the_config_decides_the_order_and_the_bounds_that_it_declares(folder):
    features = (
        '{ name = "debt", lower = -5 }, { name = "x", lower = 0, upper = 1 }, { name = "age", lower = 18, upper = 99 }'
    )
    found = bounds(write(folder, features))
    assert list(found.items()) == [("debt", (-5.0, 2.0**-300)), ("x", (0.0, 1.0)), ("age", (18.0, 99.0))]


def test_features_that_stand_for_several_are_written_out_first(folder):
    several = FOUND.model_copy(
        update={
            "features": tuple(each.model_copy(update={"name": f"x{i}"}) for i, each in enumerate(FOUND.features, 1))
        }
    )
    (folder / "bounds.toml").write_text(several.text())
    assert list(bounds(write(folder, '{ name = "x", count = 3 }'))) == ["x1", "x2", "x3"]


def test_the_release_names_the_digest_of_the_file_and_the_release_that_paid_but_no_path(folder):
    loaded = load_config(write(folder))
    shape = release_world(loaded.config)["query"]["geometry"]
    assert shape["bounds"] == "file"
    assert shape["bounds_release"] == RELEASE
    assert shape["bounds_sha256"] == loaded.config.query.geometry.bounds_sha256
    plan = make_plan(loaded, NIGHT)
    assert ("Bounds", f"from the release {RELEASE}, which is charged for itself") in describe(plan, None)
    (folder / "bounds.toml").write_text(FOUND.text(("Another comment.",)))
    assert make_plan(load_config(write(folder)), NIGHT).digest != plan.digest


def test_the_pins_of_a_config_hold(folder):
    digest = load_config(write(folder)).config.query.geometry.bounds_sha256
    assert bounds(write(folder, extra=f'bounds_sha256 = "{digest}"\nbounds_release = "{RELEASE}"\n')) == ALL
    for extra in (f'bounds_sha256 = "{"0" * 64}"\n', 'bounds_release = "people/other/2026-11-19"\n'):
        with pytest.raises(ConfigError, match="A pinned file must not change") as caught:
            load_config(write(folder, extra=extra))
        assert len(str(caught.value)) < 400


def test_a_feature_without_bounds_anywhere_is_refused(folder):
    with pytest.raises(ConfigError, match='"weight" has no bounds'):
        load_config(write(folder, '{ name = "weight", lower = 1 }'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("", "release"),
        ("release = 3", "release"),
        ("not toml", "syntax error"),
        (FOUND.text().replace(RELEASE, "people"), "release"),
        (FOUND.text().replace("ab" * 32, "xyz"), "content_sha256"),
        (FOUND.text().replace("16.0", "nan"), "features"),
        (FOUND.text().replace("16.0", "true"), "features"),
        (FOUND.text().replace("16.0", "200.0"), "lower must be below upper"),
        (FOUND.text().replace('"debt"', '"age"'), "two features"),
        (FOUND.text() + "more = 1\n", "more"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_in_words(folder, content, message):
    (folder / "bounds.toml").unlink()
    if content is not None:
        (folder / "bounds.toml").write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(write(folder))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("features", ['"age"', "3", "{ lower = 0 }", "{ name = 3 }"])
def test_features_of_other_types_are_refused_as_ever(folder, features):
    with pytest.raises(ConfigError, match="features"):
        load_config(write(folder, features))


def test_a_pin_without_a_file_is_refused(folder):
    path = write(folder, '{ name = "age", lower = 0, upper = 1 }')
    for line in (f'bounds_sha256 = "{"0" * 64}"', f'bounds_release = "{RELEASE}"'):
        path.write_text(path.read_text().replace('bounds = "bounds.toml"', line))
        with pytest.raises(ConfigError, match="Name the file"):
            load_config(path)
        path.write_text(path.read_text().replace(line, 'bounds = "bounds.toml"'))


def test_a_what_if_question_holds_the_numbers_and_names_no_file(folder):
    loaded = load_config(write(folder))
    question = what_if.question_of(loaded.config)
    assert not [key for key in question["query"]["geometry"] if key.startswith("bounds")]
    parsed = what_if.parse(question, None, NIGHT.isoformat())
    assert what_if.plan_of(parsed.question, NIGHT).charge == make_plan(loaded, NIGHT).charge
    named = {"bounds": "bounds.toml", "bounds_sha256": "0" * 64, "bounds_release": RELEASE}
    question["query"]["geometry"].update(named)
    with pytest.raises(ConfigError, match="names a file"):
        what_if.plan_of(what_if.parse(question, None, NIGHT.isoformat()).question, NIGHT)
