"""Kinds of other packages: one origin each, none of our names, nothing imported unasked, and refusals with a remedy."""

import sys
from datetime import date
from html import unescape

import pytest

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.rehearsal import rehearse
from blockveil.pipeline.base.errors import ConfigError, LedgerError, StoreError
from blockveil.pipeline.config import load_config, unvetted
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.address import open_database
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.vetting import require_allowed
from blockveil.pipeline.releases.charged_steps import reserve
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import open_keys
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import make_report
from blockveil.pipeline.study.contributions import rows_of_a_unit
from tests.house import support

SOUND = """
from blockveil.pipeline.sections.query_sections import OneShapeSection
from blockveil.pipeline.base.kinds import Kind
from typing import Literal

class Products(OneShapeSection):
    kind: Literal["their-products"]

PRODUCTS = Kind(
    titles={"their-products": "sums of products"},
    package="blockveil.pipeline.kinds.moments",
    parts={"section": Products},
)
OF_ANOTHER_NAME = PRODUCTS
NOTHING = 3
BARE = Kind(titles={"their-products": "sums of products"})
UNASKED = Kind(titles={"their-products": "sums of products"}, parts={"section": Products})
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package of a name, a module's text and its entry points; nothing of it stays imported."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    modules = []

    def install(name, text, group, **points):
        module = name.replace("-", "_")
        modules.append(module)
        (site / f"{module}.py").write_text(text)
        info = site / f"{module}-2.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
        lines = [f"{kind.replace('_', '-')} = {module}:{what}" for kind, what in points.items()]
        (info / "entry_points.txt").write_text("\n".join((f"[{group}]", *lines, "")))
        return module

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def config(folder, kind="their-products", release=""):
    path = support.write_config(folder, kind=kind)
    path.write_text(path.read_text().replace('name = "covariance"', f'name = "covariance"\n{release}'))
    return path


def refused(folder, **arguments):
    with pytest.raises(ConfigError) as caught:
        load_config(config(folder, **arguments))
    said = str(caught.value)
    assert len(said) < 400
    return said


def test_a_kind_of_one_package_is_found_and_says_where_it_comes_from(tmp_path, installed):
    installed("their-package", SOUND, "blockveil.queries", their_products="PRODUCTS")
    (found,) = load_config(config(tmp_path)).config.unvetted
    assert found.facts == {"table": "query", "kind": "their-products", "package": "their-package", "version": "2.5"}
    assert ("their-products", "their-package 2.5") in unvetted.offered("query")


def test_plan_ledger_entry_release_and_report_say_what_is_of_another_package(tmp_path, installed):
    installed("their-package", SOUND, "blockveil.queries", their_products="PRODUCTS")
    support.write_records(tmp_path, support.records())
    loaded = load_config(config(tmp_path, release="allow_unvetted = true"))
    support.set_budget(loaded, 3.0)
    plan = make_plan(loaded, date(2026, 11, 20))
    named = 'query "their-products" of their-package 2.5'
    assert [text for text in summary.warnings(plan) if text.startswith(f"unvetted: {named};")]
    outcome = run_release(plan, ThreadCompute(1), "test", lambda *_: None)
    (entry,) = (each for each in Ledger(loaded.ledger_url).history() if each.kind == "RESERVED")
    assert [each["kind"] for each in entry.payload["spec"]["unvetted"]] == ["their-products"]
    assert read_release(outcome.path).attributes["unvetted"] == entry.payload["spec"]["unvetted"]
    assert named in unescape(make_report(plan, Ledger(plan.loaded.ledger_url), outcome).path.read_text())


def test_a_kind_that_builds_on_one_of_ours_is_assessed_previewed_audited_and_released_as_it_is(tmp_path, installed):
    installed("their-package", SOUND, "blockveil.queries", their_products="PRODUCTS")
    support.write_records(tmp_path, support.records())
    theirs = make_plan(load_config(config(tmp_path, release="allow_unvetted = true")), date(2026, 11, 20))
    ours = make_plan(load_config(config(tmp_path, kind="second-moment")), date(2026, 11, 20))
    assert len(rows_of_a_unit(theirs)) == len(rows_of_a_unit(ours)) > 10
    people = Population.of(theirs, Supposed())
    assert assess(theirs, people).plain["errors"] == assess(ours, people).plain["errors"] != []
    key = NoiseKey.derive(bytes(32), b"a preview")
    found, known = (rehearse(plan, Supposed(rows=300), key) for plan in (theirs, ours))
    assert found.what == known.what == "correlation about the origin"
    assert found.entries == known.entries > 0
    support.set_budget(theirs.loaded, 3.0)
    outcome = run_release(theirs, ThreadCompute(1), "test", lambda *_: None)
    attributes = read_release(outcome.path).attributes
    assert attributes["title"] == "Differentially private sums of products of people"
    assert attributes["error"]["post_processed"] == "second_moment_psd"


def test_nights_share_a_charge_for_a_kind_of_another_package_that_grows(tmp_path, installed):
    grows = SOUND.replace('parts={"section"', 'grows=True, parts={"section"')
    path = config(tmp_path, release="allow_unvetted = true")
    path.write_text(path.read_text() + "\n[continual]\nnights = 4\nfirst = 2026-11-20\n")
    installed("still", SOUND, "blockveil.queries", their_products="PRODUCTS")
    with pytest.raises(ConfigError, match="a sum over all records so far"):
        load_config(path)
    installed_again = tmp_path / "site" / "still.py"
    installed_again.write_text(grows)
    sys.modules.pop("still")
    assert load_config(path).config.kind.grows


def test_a_kind_that_two_packages_offer_is_refused_and_neither_is_imported(tmp_path, installed):
    modules = [installed(name, SOUND, "blockveil.queries", their_products="PRODUCTS") for name in ("one", "two")]
    said = refused(tmp_path)
    assert 'query.kind = "their-products" is offered by one, two' in said
    assert "Uninstall all but one" in said
    assert not set(modules) & set(sys.modules)


@pytest.mark.parametrize(
    ("text", "what", "problem"),
    [
        ('raise RuntimeError("a password: 31415926")', "PRODUCTS", "RuntimeError"),
        ("", "PRODUCTS", "AttributeError"),
        (SOUND, "NOTHING", "it is no Kind of this name"),
        (SOUND, "BARE", "it has no section"),
        (SOUND, "UNASKED", "it has no question"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_package_and_without_its_words(
    tmp_path, installed, text, what, problem
):
    installed("their-package", text, "blockveil.queries", their_products=what)
    said = refused(tmp_path)
    assert f"of their-package 2.5 cannot be used: {problem}" in said
    assert "31415926" not in said


def test_a_declaration_under_another_name_than_its_own_is_refused(tmp_path, installed):
    installed("their-package", SOUND, "blockveil.queries", something_else="OF_ANOTHER_NAME")
    assert "no Kind of this name" in refused(tmp_path, kind="something-else")


def test_a_package_cannot_take_the_name_of_a_kind_that_the_product_has(tmp_path, installed):
    module = installed("their-package", 'raise SystemExit("imported")', "blockveil.queries", covariance="PRODUCTS")
    loaded = load_config(config(tmp_path, kind="covariance"))
    assert loaded.config.unvetted == ()
    assert "covariance" not in dict(unvetted.offered("query"))
    assert module not in sys.modules


def test_an_override_can_neither_name_a_kind_of_another_package_nor_allow_one(tmp_path, installed):
    module = installed("their-package", SOUND, "blockveil.queries", their_products="PRODUCTS")
    path = config(tmp_path, kind="covariance")
    with pytest.raises(ConfigError):
        load_config(path, overrides={"query.kind": "their-products"})
    assert module not in sys.modules
    path = config(tmp_path)
    for prefixes in (("privacy",), ("compute", "cluster"), ("release.dataset",)):
        with pytest.raises(ConfigError):
            load_config(path, overrides={"release.allow_unvetted": "true"}, allowed_prefixes=prefixes)
    with pytest.raises(ConfigError, match="allow_unvetted = true in"):
        require_allowed(load_config(path))
    require_allowed(load_config(config(tmp_path, release="allow_unvetted = true")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [("BACKEND = dict", "it is no Database"), ('raise OSError("31415926")', "OSError"), ("", "AttributeError")],
)
def test_a_ledger_of_another_package_that_cannot_be_used_is_refused(installed, text, problem):
    installed("their-ledger", text, "blockveil.ledgers", theirs="BACKEND")
    with pytest.raises(LedgerError) as caught:
        open_database("theirs://host/31415926")
    said = str(caught.value)
    assert f'"theirs://..." cannot be used: {problem}' in said
    assert "31415926" not in said


def test_a_ledger_that_two_packages_offer_is_refused(installed):
    for name in ("one", "two"):
        installed(name, "BACKEND = dict", "blockveil.ledgers", theirs="BACKEND")
    with pytest.raises(LedgerError, match="2 packages offer it"):
        open_database("theirs://host/place")


KEYS = """
from blockveil.pipeline.releases.keys import NoiseKeys

class Keys(NoiseKeys):
    def __init__(self, address): pass
    def create(self, charge_id): return b"31415926"
    def read(self, charge_id): return None
    def destroy(self, charge_id): pass
    def list(self): return []
"""


def with_keys(folder, monkeypatch, release=""):
    """A config whose keys another package keeps, and the night's records."""
    support.write_records(folder, support.records())
    path = support.write_config(folder)
    text = path.read_text().replace('keys = "keys"', 'keys = "env:THEIR_KEYS"')
    path.write_text(text.replace('name = "covariance"', f'name = "covariance"\n{release}'))
    monkeypatch.setenv("THEIR_KEYS", "theirs://host/31415926")
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def test_keys_of_another_package_need_leave_and_are_not_opened_for_a_plan(tmp_path, installed, monkeypatch):
    module = installed("their-keys", KEYS, "blockveil.key_stores", theirs="Keys")
    loaded = with_keys(tmp_path, monkeypatch)
    plan, books = support.opened(make_plan(loaded, date(2026, 11, 20)))
    with pytest.raises(ConfigError, match="another package keeps its noise keys"):
        reserve(plan, books, "test")
    assert module not in sys.modules
    assert not Ledger(loaded.ledger_url).history(release_id=plan.release_id)


def test_a_key_of_records_of_another_size_is_refused_before_anything_is_reserved(tmp_path, installed, monkeypatch):
    installed("their-keys", KEYS, "blockveil.key_stores", theirs="Keys")
    loaded = with_keys(tmp_path, monkeypatch, "allow_unvetted = true")
    with pytest.raises(StoreError, match="a key of 8 bytes") as caught:
        run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "test", lambda *_: None)
    assert "31415926" not in str(caught.value)
    assert "RESERVED" not in [entry.kind for entry in Ledger(loaded.ledger_url).history()]


def test_a_noise_key_of_another_size_is_refused_before_the_charge_is_committed(tmp_path, installed, monkeypatch):
    keys = KEYS.replace('return b"31415926"', 'return MADE.setdefault(charge_id, b"31415926" if MADE else bytes(32))')
    keys = keys.replace("return None", "return MADE.get(charge_id)") + "MADE = {}  # the key of records comes first"
    installed("their-keys", keys, "blockveil.key_stores", theirs="Keys")
    loaded = with_keys(tmp_path, monkeypatch, "allow_unvetted = true")
    with pytest.raises(StoreError, match="a key of 8 bytes") as caught:
        run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "test", lambda *_: None)
    assert "31415926" not in str(caught.value)
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
    assert kinds[-1] == "VOID"
    assert "COMMITTED" not in kinds


@pytest.mark.parametrize(
    ("text", "problem"),
    [("Keys = dict", "it is no NoiseKeys"), ('raise OSError("31415926")', "OSError"), ("", "AttributeError")],
)
def test_a_key_store_of_another_package_that_cannot_be_used_is_refused(tmp_path, installed, monkeypatch, text, problem):
    installed("their-keys", text, "blockveil.key_stores", theirs="Keys")
    with pytest.raises(StoreError) as caught:
        open_keys(with_keys(tmp_path, monkeypatch))
    said = str(caught.value)
    assert f'"theirs://..." cannot be used: {problem}' in said
    assert "31415926" not in said


def test_an_address_of_no_installed_key_store_is_refused_and_not_shown(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="is not the address of a key store") as caught:
        open_keys(with_keys(tmp_path, monkeypatch))
    assert "31415926" not in str(caught.value)
