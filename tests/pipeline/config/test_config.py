"""What a config may say, and how it is told what it may not."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.canonical import canonical_json, digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig, load_config, release_world
from blockveil.pipeline.config.explain import explain
from blockveil.pipeline.sections.fields import Reference, Section, Whole

BOX = """
[release]
dataset = "census"
name = "incomes"

[data]
store = "records.zarr"

[query]
kind = "covariance"
rows_at_most = 100_000
missing = "refuse"
geometry.kind = "box"
geometry.origin = "midpoint"
geometry.features = [
  {name = "age", lower = 0, upper = 120},
  {name = "income", lower = 0.0, upper = 1e6},
]

[privacy]
epsilon = 1.0
delta = 1e-7
neighbours = "add-remove"
unit = "one person"

[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"

[output]
root = "out"
ledger = "private/ledger.db"
keys = "private/keys"
"""

BALL = 'geometry = {kind = "ball", radius = 2, features = [{name = "x", origin = 0}, {name = "y", origin = 1}]}'
DIAGONAL = (
    'geometry = {kind = "ellipsoid", shape = "diagonal", '
    'features = [{name = "x", origin = 0, semi_axis = 1}, {name = "y", origin = 1, semi_axis = 2}]}'
)
MATRIX = (
    'geometry = {kind = "ellipsoid", shape = "e.npy", features = [{name = "x", origin = 0}, {name = "y", origin = 1}]}'
)

Load = Callable[..., LoadedConfig]


def with_geometry(geometry: str) -> str:
    lines = [line for line in BOX.splitlines() if not line.startswith(("geometry", "  {", "]"))]
    return "\n".join(lines).replace('missing = "refuse"', f'missing = "refuse"\n{geometry}')


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a config and load it."""

    def write_and_load(text: str, **options: Any) -> LoadedConfig:
        (tmp_path / "nightly.toml").write_text(text, encoding="utf-8")
        return load_config(tmp_path / "nightly.toml", **options)

    return write_and_load


@pytest.fixture
def refused(load: Load) -> Callable[..., str]:
    """Load a config that must be refused, and return the message."""

    def message(text: str, **options: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text, **options)
        assert len(str(caught.value).splitlines()) <= 2
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        return str(caught.value)

    return message


class TestAllAtOnce:
    """All problems of a config are found in one go, each on its line."""

    def problems(self, load: Load, text: str, **options: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, **options)
        error = caught.value
        assert error.in_full.startswith(f"there are {1 + len(error.others)} problems.\n1. ")
        return [str(each) for each in (ConfigError(error.value, error.rule, error.remedy), *error.others)]

    def test_problems_come_in_the_order_of_the_file_and_name_their_lines(self, load: Load) -> None:
        text = BOX.replace("epsilon = 1.0", "epsilon = -1").replace("upper = 120", "uper = 120")
        text = text.replace('dataset = "census"', 'dataset = "A B"').replace("delta = ", "# delta = ")
        lines = text.splitlines()
        found = self.problems(load, text)
        keys = ["release.dataset", "query.geometry.features[0].uper", "privacy.delta", "privacy.epsilon"]
        assert [message.split()[0] for message in found] == keys
        for message, sign in zip(found, ('"A B"', "uper", "[privacy]", "epsilon = -1"), strict=True):
            line = int(re.search(r"nightly\.toml, line (\d+)", message)[1])
            assert sign in lines[line - 1]
            assert len(message) < 400

    def test_every_rule_between_values_is_checked_although_another_one_is_broken(self, load: Load) -> None:
        text = BOX.replace("delta = 1e-7", "delta = 0.4\nrows_per_unit = 3")
        text = text.replace('neighbours = "add-remove"', 'neighbours = "replace-one"')
        found = self.problems(load, text)
        assert [message.split(":")[0] for message in found] == ["privacy.delta", "privacy.rows_per_unit"]

    def test_an_overridden_value_has_no_line_for_it_is_not_in_the_file(self, load: Load) -> None:
        found = self.problems(load, BOX, overrides={"privacy.epsilon": "-1", "privacy.delta": "-1"})
        assert len(found) == 2
        assert not any("line" in message for message in found)

    def test_a_long_list_of_problems_is_cut_and_counted(self, load: Load) -> None:
        with pytest.raises(ConfigError) as caught:
            load(BOX + "".join(f"\n[wrong{number}]" for number in range(60)))
        shown = caught.value.in_full.splitlines()
        assert shown[0] == "there are 60 problems."
        assert shown[-1] == "(10 more)"
        assert str(caught.value).endswith("(59 more to correct).")

    def test_alternatives_of_one_value_are_one_problem_in_the_words_of_its_key(self, load: Load) -> None:
        with pytest.raises(ConfigError) as caught:
            load(BOX.replace('"relative-error"', "3"))
        assert caught.value.others == ()
        assert caught.value.value == "mechanism.optimise_for = 3"

    def test_what_a_rule_does_not_repeat_no_other_alternative_of_the_value_shows(self) -> None:
        class Table(Section):
            place: Whole | Reference
            """the place"""

        with pytest.raises(ValidationError) as caught:
            Table.model_validate({"place": "hunter2-31415926"})
        message = explain(caught.value, {"place": "hunter2-31415926"}, "a file", Table).in_full
        assert "this is not a reference" in message
        assert "31415926" not in message


class TestValues:
    """A good config arrives as written."""

    def test_values_and_documented_defaults_arrive(self, load: Load) -> None:
        config = load(BOX).config
        assert (config.privacy.epsilon, config.privacy.delta) == (1.0, 1e-7)
        assert config.privacy.neighbours is Neighbours.ADD_REMOVE
        assert config.query.quantisation_bits is None
        assert config.data.array == "records"
        assert (config.compute.memory_gib, config.compute.block_rows) == (4.0, None)
        assert config.cluster.model_dump() == {
            "kind": "local",
            "workers": 2,
            "threads_per_worker": 1,
            "always_start_workers": False,
        }
        assert [feature.name for feature in config.query.geometry.features] == ["age", "income"]

    def test_paths_start_from_the_folder_of_the_config(
        self, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir("/")
        loaded = load(BOX)
        assert loaded.store_path == tmp_path / "records.zarr"
        assert loaded.output_root == tmp_path / "out"
        assert loaded.keys_root == tmp_path / "private" / "keys"
        assert loaded.ledger_url == f"sqlite:///{tmp_path}/private/ledger.db"
        assert loaded.resolve("/elsewhere") == Path("/elsewhere")

    @pytest.mark.parametrize("geometry", [BALL, DIAGONAL])
    def test_the_other_shapes_are_accepted(self, load: Load, geometry: str) -> None:
        assert len(load(with_geometry(geometry)).config.query.geometry.spans()) == 2

    def test_a_box_may_bound_the_norm_too(self, load: Load) -> None:
        geometry = load(
            BOX.replace('geometry.kind = "box"', 'geometry.kind = "box"\ngeometry.norm_at_most = 70')
        ).config
        assert geometry.query.geometry.spans() == ((0.0, 120.0), (499_930.0, 500_070.0))

    def test_a_loaded_config_cannot_be_changed(self, load: Load) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            load(BOX).config.privacy.epsilon = 2.0

    def test_a_cluster_table_without_kind_is_local(self, load: Load) -> None:
        assert load(BOX + "[cluster]\nworkers = 8\n").config.cluster.model_dump()["workers"] == 8

    def test_threads_need_no_cluster(self, load: Load) -> None:
        assert load(BOX, overrides={"cluster.kind": '"threads"'}).config.cluster.model_dump()["threads_per_worker"] == 2

    def test_importances_may_replace_the_aim(self, load: Load) -> None:
        text = BOX.replace('optimise_for = "relative-error"', "optimise_for = {age = 1, income = 2.5}")
        mechanism = load(text).config.mechanism
        assert mechanism.model_dump()["optimise_for"] == {"age": 1.0, "income": 2.5}


class TestNoDefaults:
    """Whatever decides privacy must be written down."""

    @pytest.mark.parametrize(
        ("line", "key"),
        [
            ("epsilon = 1.0\n", "privacy.epsilon"),
            ("delta = 1e-7\n", "privacy.delta"),
            ('neighbours = "add-remove"\n', "privacy.neighbours"),
            ('unit = "one person"\n', "privacy.unit"),
            ("rows_at_most = 100_000\n", "query.rows_at_most"),
            ('missing = "refuse"\n', "query.missing"),
            ('geometry.origin = "midpoint"\n', "query.geometry.origin"),
            ("lower = 0, ", "query.geometry.features[0].lower"),
            (", upper = 1e6", "query.geometry.features[1].upper"),
            ('keys = "private/keys"\n', "output.keys"),
            ('optimise_for = "relative-error"\n', "mechanism.optimise_for"),
        ],
    )
    def test_a_missing_decision_is_named(self, refused: Callable[..., str], line: str, key: str) -> None:
        assert BOX.count(line) == 1
        message = refused(BOX.replace(line, ""))
        assert message.startswith(f"{key} is not given")
        assert f"Add it to [{key.rpartition('.')[0]}] in nightly.toml" in message

    def test_a_missing_section_is_named(self, refused: Callable[..., str]) -> None:
        assert refused(
            BOX.replace('[mechanism]\nkind = "shaped-gaussian"\noptimise_for = "relative-error"\n', "")
        ).startswith("mechanism is not given")

    def test_a_missing_kind_is_named(self, refused: Callable[..., str]) -> None:
        assert refused(BOX.replace('geometry.kind = "box"\n', "")).startswith("query.geometry.kind is not given")


class TestRefusals:
    """Each refusal names the key, the rule and the remedy."""

    @pytest.mark.parametrize(
        ("old", "new", "parts"),
        [
            (
                "epsilon = 1.0",
                "epsilon = 0",
                ["privacy.epsilon = 0", "greater than 0", "how far one unit may move the odds"],
            ),
            ("epsilon = 1.0", "epsilon = 1001", ["privacy.epsilon = 1001", "less than or equal to 1000"]),
            ("epsilon = 1.0", "epsilon = nan", ["privacy.epsilon = nan", "finite number"]),
            ("epsilon = 1.0", "epsilon = inf", ["privacy.epsilon = inf"]),
            ("epsilon = 1.0", 'epsilon = "1"', ['privacy.epsilon = "1"', "valid number"]),
            ("epsilon = 1.0", "epsilon = true", ["privacy.epsilon = true", "valid number"]),
            ("epsilon = 1.0", "epsilom = 1.0", ["privacy.epsilom", "Did you mean privacy.epsilon?"]),
            ("epsilon = 1.0", "epsilon = 1.0\nworkers = 3", ["privacy.workers", "Move it to [cluster]"]),
            (
                "epsilon = 1.0",
                "epsilon = 1.0\nqqq = 3",
                ["here: delta, epsilon, neighbours, rows_per_unit, share, unit"],
            ),
            ('kind = "shaped-gaussian"', 'kind = "gaussian"', ['It belongs to kind = "shaped-gaussian"']),
            ("[mechanism]", "[mechanics]", ["mechanics is not a known key", "Did you mean mechanism?"]),
            ("delta = 1e-7", "delta = 0.0", ["privacy.delta = 0.0", "greater than 0"]),
            ("delta = 1e-7", "delta = 0.6", ["privacy.delta = 0.6", "0.5"]),
            ("delta = 1e-7", "delta = 1e-5", ["privacy.delta: 1e-05", "1 / rows_at_most", "1e-07"]),
            ('"add-remove"', '"remove"', ['privacy.neighbours = "remove"', "'add-remove' or 'replace-one'"]),
            ('"one person"', '" "', ["privacy.unit"]),
            ('"refuse"', '"drop"', ['query.missing = "drop"', "'refuse' or 'impute'"]),
            ("100_000", "0", ["query.rows_at_most = 0"]),
            ("100_000", "1e5", ["query.rows_at_most = 100000.0", "valid integer"]),
            ('kind = "covariance"', 'kind = "median"', ['query.kind = "median"']),
            ("rows_at_most", "quantisation_bits = 7\nrows_at_most", ["query.quantisation_bits = 7", "equal to 8"]),
            ("rows_at_most", "quantisation_bits = 21\nrows_at_most", ["query.quantisation_bits = 21", "equal to 20"]),
            ('"box"', '"bax"', ['query.geometry.kind = "bax"', "'box', 'ball', 'ellipsoid'"]),
            ("upper = 120", "upper = -0.5", ["features[0].lower", '"age"', "lower must be below upper"]),
            ("upper = 120", "upper = 0", ["features[0].lower", "lower must be below upper"]),
            ("upper = 120", "upper = inf", ["query.geometry.features[0].upper = inf"]),
            ("upper = 120", "upper = 1e101", ["query.geometry.features[0].upper = 1e+101"]),
            ("upper = 120", "uper = 120", ["Did you mean query.geometry.features[0].upper?"]),
            ('name = "income"', 'name = "age"', ['query.geometry.features: two features are named "age"']),
            ("upper = 120", "upper = 120, count = 131_072", ["count = 131072", "at most 131,071 features", "Split"]),
            ("upper = 120", "upper = 120, count = 0", ["features[0].count is not a known key"]),
            ('name = "income"', 'name = "a\\nb"', ["query.geometry.features[1].name"]),
            ('"midpoint"', '"mean"', ['query.geometry.origin = "mean"']),
            ("geometry.features = [", "geometry.features = []\nx = [", ["at least 1 item"]),
            ('dataset = "census"', 'dataset = "Census"', ['release.dataset = "Census"', "lower-case"]),
            ('name = "incomes"', 'name = "../up"', ['release.name = "../up"']),
            ('name = "incomes"', f'name = "{"a" * 64}"', ["release.name"]),
            ('store = "records.zarr"', 'store = "s3://me:pass@bucket/x"', ["data.store", "without credentials"]),
            ('store = "records.zarr"', 'store = "a"\narray = "../b"', ['data.array = "../b"']),
            ('kind = "shaped-gaussian"', 'kind = "r1smg"', ["mechanism.kind", "'gaussian', 'shaped-gaussian'"]),
            ('"relative-error"', '"speed"', ['mechanism.optimise_for = "speed"', "'relative-error'"]),
            ('"relative-error"', "{age = 1}", ["mechanism.optimise_for", '"income" has no importance', "Add it"]),
            ('"relative-error"', "{age = 1, income = 1, x = 1}", ['"x" is not a feature']),
            ('"relative-error"', "{age = 0, income = 1}", ["mechanism.optimise_for.age = 0"]),
            ('keys = "private/keys"', 'keys = "out/keys"', ["output.keys lies inside output.root"]),
            ('ledger = "private/ledger.db"', 'ledger = "out/l.db"', ["output.ledger lies inside output.root"]),
            ('store = "records.zarr"', 'store = "out/records.zarr"', ["data.store and output.root lie in one another"]),
            ('root = "out"', 'root = "records.zarr/out"', ["data.store and output.root lie in one another"]),
        ],
    )
    def test_a_bad_value_is_explained(self, refused: Callable[..., str], old: str, new: str, parts: list[str]) -> None:
        assert old in BOX
        message = refused(BOX.replace(old, new, 1))
        for part in parts:
            assert part in message

    def test_a_zero_origin_must_lie_inside_every_bound(self, load: Load, refused: Callable[..., str]) -> None:
        zero = BOX.replace('"midpoint"', '"zero"')
        assert load(zero).config.query.geometry.model_dump()["origin"] == "zero"
        message = refused(zero.replace("lower = 0, ", "lower = 18, "))
        assert '"age", whose bounds do not contain 0' in message

    def test_a_section_must_be_a_table(self, refused: Callable[..., str]) -> None:
        assert "compute = 3. It must be a table" in refused("compute = 3\n" + BOX)

    def test_delta_is_refused_from_one_over_rows_on(self, load: Load, refused: Callable[..., str]) -> None:
        below = np.nextafter(1e-5, 0)
        assert load(BOX.replace("1e-7", repr(float(below)))).config.privacy.delta == below
        assert "privacy.delta" in refused(BOX.replace("1e-7", "1e-5"))

    def test_a_message_has_no_line_breaks_of_the_config(self, refused: Callable[..., str]) -> None:
        importances = '{"a\\nb" = 1, age = 1, income = 1}'
        for text in (BOX.replace('"relative-error"', importances), BOX + '"a\\nb" = 1\n'):
            assert "a\\u000ab holds a control character" in refused(text)
        assert 'query.missing = "re\\nfuse"' in refused(BOX.replace('"refuse"', '"re\\nfuse"'))

    def test_a_value_quoted_in_a_message_is_cut(self, refused: Callable[..., str]) -> None:
        assert len(refused(BOX.replace('"refuse"', f'"{"x" * 5000}"'))) < 400


class TestImputation:
    """A missing value is replaced by a public, admissible constant, or refused."""

    IMPUTE = BOX.replace('"refuse"', '"impute"').replace("upper = 120", "upper = 120, impute = 40")

    def test_each_feature_needs_a_constant(self, refused: Callable[..., str]) -> None:
        message = refused(self.IMPUTE)
        assert 'query.geometry.features[1].impute: missing for feature "income"' in message

    def test_constants_for_all_features_are_accepted(self, load: Load) -> None:
        features = load(self.IMPUTE.replace("1e6}", "1e6, impute = 0}")).config.query.geometry.features
        assert [feature.impute for feature in features] == [40.0, 0.0]

    def test_a_constant_beyond_the_norm_is_refused(self, refused: Callable[..., str]) -> None:
        norm = self.IMPUTE.replace('geometry.kind = "box"', 'geometry.kind = "box"\ngeometry.norm_at_most = 10')
        assert "between 50.0 and 70.0" in refused(norm.replace("1e6}", "1e6, impute = 5e5}"))

    @pytest.mark.parametrize("norm", ["0", "-1", "nan", "inf", '"1"', "true", "1e101"])
    def test_a_norm_that_is_none_is_refused(self, refused: Callable[..., str], norm: str) -> None:
        box = BOX.replace('geometry.kind = "box"', f'geometry.kind = "box"\ngeometry.norm_at_most = {norm}')
        assert "query.geometry.norm_at_most" in refused(box)

    def test_a_constant_without_use_is_refused(self, refused: Callable[..., str]) -> None:
        assert "features[0].impute: given" in refused(BOX.replace("upper = 120", "upper = 120, impute = 40"))

    def test_a_constant_outside_the_bounds_is_refused(self, refused: Callable[..., str]) -> None:
        message = refused(self.IMPUTE.replace("1e6}", "1e6, impute = -1}"))
        assert 'features[1].impute: -1.0 for feature "income"' in message
        assert "between 0.0 and 1000000.0" in message

    @pytest.mark.parametrize("geometry", [BALL, DIAGONAL])
    def test_a_constant_outside_another_shape_is_refused(self, refused: Callable[..., str], geometry: str) -> None:
        text = with_geometry(geometry).replace('"refuse"', '"impute"')
        text = text.replace("origin = 0", "impute = 0.5, origin = 0").replace("origin = 1", "impute = 4, origin = 1")
        assert "features[1].impute: 4.0" in refused(text)


class TestFiles:
    """Whatever is wrong with the file is a ConfigError too."""

    def test_an_absent_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"absent\.toml: there is no such file"):
            load_config(tmp_path / "absent.toml")

    def test_a_folder_is_no_config(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            load_config(tmp_path)

    def test_a_syntax_error_names_its_line(self, refused: Callable[..., str]) -> None:
        assert "syntax error: Invalid value (at line 1" in refused("a = census\n")

    def test_text_that_is_not_utf8_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "c.toml").write_bytes(b'a = "\xff"')
        with pytest.raises(ConfigError, match="not UTF-8"):
            load_config(tmp_path / "c.toml")

    def test_an_empty_file_is_refused(self, refused: Callable[..., str]) -> None:
        assert refused("").startswith("release is not given")


class TestOverrides:
    """Overrides are TOML values for dotted keys, in the tables that the caller allows."""

    def test_an_override_replaces_or_adds_a_value(self, load: Load) -> None:
        loaded = load(BOX, overrides={"privacy.epsilon": "0.5", "compute.memory_gib": "2", "cluster.workers": "3"})
        assert loaded.config.privacy.epsilon == 0.5
        assert loaded.config.compute.memory_gib == 2.0
        assert loaded.config.cluster.model_dump()["workers"] == 3

    def test_an_override_is_validated_like_the_file(self, refused: Callable[..., str]) -> None:
        message = refused(BOX, overrides={"privacy.epsilon": "-1"})
        assert "privacy.epsilon = -1" in message
        assert "nightly.toml or its overrides" in message

    @pytest.mark.parametrize("text", ["local", "", "1\nother = 2", "1 # x\nb = 1", "[", '"a" "b"'])
    def test_an_override_is_exactly_one_toml_value(self, refused: Callable[..., str], text: str) -> None:
        assert "is not one TOML value" in refused(BOX, overrides={"compute.block_rows": text})

    @pytest.mark.parametrize("key", ["", "privacy.", ".epsilon", "privacy.epsilon.x", "privacy..epsilon"])
    def test_an_override_names_a_key_in_a_table(self, refused: Callable[..., str], key: str) -> None:
        assert "cannot be overridden" in refused(BOX, overrides={key: "1"})

    @pytest.mark.parametrize("key", ["privacy.epsilon", "computer.x", "query", "compute_.x"])
    def test_other_tables_are_closed(self, refused: Callable[..., str], key: str) -> None:
        message = refused(BOX, overrides={key: "1"}, allowed_prefixes=("compute", "cluster.workers"))
        assert f"{key} may not be overridden here. Overrides may touch only compute, cluster.workers" in message

    def test_allowed_tables_and_keys_are_open(self, load: Load) -> None:
        overrides = {"compute.block_rows": "10", "cluster.workers": "1"}
        assert load(BOX, overrides=overrides, allowed_prefixes=("compute", "cluster.workers")).config.compute.block_rows


class TestEllipsoidMatrix:
    """A matrix file is part of the release by its content."""

    @pytest.fixture
    def matrix(self, tmp_path: Path) -> Path:
        np.save(tmp_path / "e.npy", np.array([[4.0, 1.0], [1.0, 9.0]]))
        return tmp_path / "e.npy"

    def test_the_content_decides_the_release_and_the_path_does_not(self, load: Load, matrix: Path) -> None:
        first = load(with_geometry(MATRIX))
        matrix.rename(matrix.with_name("f.npy"))
        moved = load(with_geometry(MATRIX.replace("e.npy", "f.npy")))
        assert release_world(first.config) == release_world(moved.config)
        np.save(matrix, np.eye(2))
        assert release_world(load(with_geometry(MATRIX)).config) != release_world(first.config)
        assert "npy" not in json.dumps(release_world(first.config))

    def test_the_matrix_is_the_one_that_was_pinned(self, load: Load, matrix: Path) -> None:
        loaded = load(with_geometry(MATRIX))
        assert loaded.shape_matrix().tolist() == [[4.0, 1.0], [1.0, 9.0]]
        np.save(matrix, np.eye(2))
        with pytest.raises(ConfigError, match="changed while"):
            loaded.shape_matrix()

    def test_a_pin_in_the_config_is_checked(self, refused: Callable[..., str], matrix: Path) -> None:
        pinned = MATRIX.replace('"e.npy"', f'"e.npy", shape_sha256 = "{"0" * 64}"')
        assert "differs from its shape_sha256" in refused(with_geometry(pinned))

    def test_a_config_that_was_not_loaded_has_no_release_identity(self, load: Load, matrix: Path) -> None:
        tree = load(with_geometry(MATRIX)).config.model_dump()
        del tree["query"]["geometry"]["shape_sha256"]
        with pytest.raises(ValueError, match="load_config"):
            release_world(ReleaseConfig.model_validate(tree))

    def test_an_absent_file_is_refused(self, refused: Callable[..., str]) -> None:
        assert 'the file "e.npy" cannot be read' in refused(with_geometry(MATRIX))

    @pytest.mark.parametrize(
        "content",
        [
            np.eye(3),
            np.array([[1.0, np.nan], [0.0, 1.0]]),
            np.array([{}, {}], dtype=object),
            np.array("x"),
            np.eye(2) * (1 + 1j),
            np.eye(2).astype(str),
        ],
    )
    def test_another_array_is_refused(self, load: Load, matrix: Path, content: Any) -> None:
        np.save(matrix, content, allow_pickle=True)
        with pytest.raises(ConfigError, match="2 x 2 matrix"):
            load(with_geometry(MATRIX)).shape_matrix()

    def test_semi_axes_belong_to_the_diagonal_shape(self, refused: Callable[..., str], matrix: Path) -> None:
        both = DIAGONAL.replace('"diagonal"', '"e.npy"')
        assert "features[0].semi_axis: given" in refused(with_geometry(both))
        neither = MATRIX.replace('"e.npy"', '"diagonal"')
        assert "features[0].semi_axis: missing" in refused(with_geometry(neither))


class TestCluster:
    """A scheduler must be encrypted, also on this machine; its files are given by reference."""

    REMOTE = '[cluster]\nkind = "address"\naddress = "tls://scheduler:8786"\n'
    FILES = 'tls_ca_file = "file:ca.pem"\ntls_client_cert = "env:CERTIFICATE"\ntls_client_key = "file:/k.pem"\n'

    @pytest.mark.parametrize("host", ["scheduler", "localhost", "127.0.0.1", "[::1]"])
    def test_a_plain_address_is_refused_unless_the_config_says_insecure(
        self, load: Load, refused: Callable[..., str], host: str
    ) -> None:
        text = BOX + f'[cluster]\nkind = "address"\naddress = "tcp://{host}:8786"\n'
        assert "whoever reaches a scheduler without TLS, on this machine too, can run code on it" in refused(text)
        loaded = load(text + "insecure = true\n")
        assert loaded.config.in_clear
        assert loaded.tls_files() is None

    def test_a_cluster_is_insecure_only_by_a_plain_true(self, load: Load, refused: Callable[..., str]) -> None:
        assert not load(BOX + self.REMOTE).config.in_clear
        for value in ('"true"', "1"):
            assert "cluster.insecure" in refused(BOX + self.REMOTE + f"insecure = {value}\n")
        for kind in ("local", "threads"):
            assert "insecure" in refused(BOX + f'[cluster]\nkind = "{kind}"\ninsecure = true\n')

    def test_references_become_paths(self, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CERTIFICATE", "cert.pem")
        files = load(BOX + self.REMOTE + self.FILES).tls_files()
        assert files == {
            "tls_ca_file": tmp_path / "ca.pem",
            "tls_client_cert": tmp_path / "cert.pem",
            "tls_client_key": Path("/k.pem"),
        }

    def test_an_unset_variable_is_named(self, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CERTIFICATE", raising=False)
        loaded = load(BOX + self.REMOTE + self.FILES)
        with pytest.raises(ConfigError, match="variable CERTIFICATE is not set"):
            loaded.tls_files()

    def test_half_of_the_files_is_refused(self, refused: Callable[..., str]) -> None:
        assert "Give all three or none" in refused(BOX + self.REMOTE + 'tls_client_key = "file:k.pem"\n')

    def test_a_secret_in_clear_is_refused(self, refused: Callable[..., str]) -> None:
        message = refused(BOX + self.REMOTE + 'tls_client_key = "-----BEGIN"\n')
        assert "cluster.tls_client_key: this is not a reference" in message
        assert "BEGIN" not in message

    def test_a_local_cluster_has_no_tls_files(self, load: Load) -> None:
        assert load(BOX).tls_files() is None


class TestTwoWorlds:
    """What decides the release, and what may not."""

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("compute.memory_gib", "1"),
            ("compute.block_rows", "7"),
            ("cluster.workers", "9"),
            ("output.root", '"other"'),
            ("output.keys", '"k"'),
            ("data.store", '"moved.zarr"'),
        ],
    )
    def test_where_and_how_it_runs_is_not_part_of_the_release(self, load: Load, key: str, value: str) -> None:
        assert release_world(load(BOX, overrides={key: value}).config) == release_world(load(BOX).config)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("release.name", '"b"'),
            ("data.array", '"b"'),
            ("query.kind", '"second-moment"'),
            ("query.rows_at_most", "5"),
            ("query.quantisation_bits", "15"),
            ("query.geometry.origin", '"zero"'),
            ("privacy.epsilon", "1.0000000000000002"),
            ("privacy.delta", "2e-7"),
            ("privacy.neighbours", '"replace-one"'),
            ("privacy.unit", '"one visit"'),
            ("mechanism.optimise_for", '"absolute-error"'),
        ],
    )
    def test_each_private_decision_changes_the_digest(self, load: Load, key: str, value: str) -> None:
        changed, plain = load(BOX, overrides={key: value}), load(BOX)
        assert digest(release_world(changed.config)) != digest(release_world(plain.config))

    def test_writing_a_number_differently_changes_nothing(self, load: Load) -> None:
        other = BOX.replace("epsilon = 1.0", "epsilon = 1").replace("1e6", "1_000_000").replace("100_000", "100000")
        assert canonical_json(release_world(load(other).config)) == canonical_json(release_world(load(BOX).config))

    def test_the_digest_is_the_same_in_every_version(self, load: Load) -> None:
        # A change here makes every stored plan a different release: change a version in the plan on purpose instead.
        assert digest(release_world(load(BOX).config)) == (
            "5770ccdaeffacd545ceaea95c5d15b258cb63546871e4144c4a3160209fdd84e"
        )


class TestCanonicalJson:
    """Equal values, equal bytes; nothing approximated."""

    def test_the_form_is_fixed(self) -> None:
        value = {"b": [1, 2.0, 1e-7, True, None], "a": ("ü", Neighbours.ADD_REMOVE, np.float64(0.1))}
        assert canonical_json(value) == rb'{"a":["\u00fc","add-remove",0.1],"b":[1,2.0,1e-07,true,null]}'

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_floats_read_back_to_the_same_bits(self, value: float) -> None:
        assert np.float64(json.loads(canonical_json(value))).tobytes() == np.float64(value).tobytes()

    @given(st.dictionaries(st.text(), st.integers()))
    def test_the_order_of_keys_does_not_matter(self, value: dict[str, int]) -> None:
        shuffled = dict(reversed(list(copy.copy(value).items())))
        assert digest(shuffled) == digest(value)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")], {"a": {"b": np.float64("nan")}}])
    def test_numbers_that_are_not_finite_are_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="Out of range"):
            canonical_json(value)

    @pytest.mark.parametrize("value", [{1: 2}, [{None: 1}], {"a": {1, 2}}, b"bytes", np.int64(3), object()])
    def test_other_types_are_refused(self, value: Any) -> None:
        with pytest.raises(TypeError):
            canonical_json(value)
