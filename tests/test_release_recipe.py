"""``make release`` refuses what should not reach an index, and links of the index page lead to files of the version."""

import importlib.util
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "https://host.example/owner/blockveil"

_spec = importlib.util.spec_from_file_location("release_recipe", ROOT / ".ci" / "release.py")
recipe = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recipe)


def test_every_link_of_the_readme_leads_to_a_file_of_the_version_and_its_picture_to_the_picture_itself():
    page = recipe.absolute((ROOT / "README.md").read_text(), ADDRESS, "1.0.0", ROOT)
    assert recipe.LINK.search(page) is None
    assert f"]({ADDRESS}/raw/v1.0.0/docs/" in page
    assert f"]({ADDRESS}/blob/v1.0.0/SECURITY.md)" in page


def test_a_link_to_nothing_stops_the_release(tmp_path):
    with pytest.raises(SystemExit, match=r"gone\.md"):
        recipe.absolute("[there](gone.md#part)", ADDRESS, "1.0.0", tmp_path)


def test_the_settings_name_the_addresses_of_the_version_and_are_otherwise_as_they_were():
    text = (ROOT / "pyproject.toml").read_text()
    found = recipe.with_addresses(text, ADDRESS, "1.0.0")
    assert f'Changelog = "{ADDRESS}/blob/v1.0.0/CHANGELOG.md"' in found
    assert found.endswith(text)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("1.0.0", "# C\n\n## 1.0.0 (2026-11-29)\n", [], "", []), []),
        (("1.0.0", "# C\n\n## 1.0.0 (2026-11-29)\n", [], " M README.md\n", []), ["not committed"]),
        (("1.0.1", "# C\n\n## 1.0.0 (2026-11-29)\n", [], "", []), ["has no section"]),
        (("1.0.0", "# C\n\n## 1.0.0 (unreleased)\n", [], "", []), ["has no section"]),
        (("1.0.0", "# C\n\n## 1.0.0 (2026-11-29)\n", ["a.md"], "", []), ["still holds a.md"]),
        (("1.0.0", "# C\n\n## 1.0.0 (2026-11-29)\n", [], "", ["v1.0.0"]), ["is a tag already"]),
    ],
)
def test_a_commit_that_is_not_ready_is_refused_with_the_reason(given, why):
    found = recipe.unready(*given)
    assert len(found) == len(why)
    assert all(words in said for words, said in zip(why, found, strict=True))


def test_what_an_index_would_miss_is_named(tmp_path):
    wheel, sdist = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("a.dist-info/METADATA", "Name: a\n\n![picture](docs/report.png) and [more](https://x.example/)")
        files.writestr("a.dist-info/licenses/LICENSE", "")
    with tarfile.open(sdist, "w:gz"):
        pass
    found = recipe.problems(wheel, sdist)
    assert "the index page has a relative link: docs/report.png" in found
    assert "the wheel lacks NOTICE" in found
    assert "the source distribution lacks LICENSE" in found


def test_a_bill_of_materials_lists_what_the_package_needs_and_no_tool_of_developers():
    names = recipe.needed(["zarr>=3", "psycopg[binary]>=3"])
    assert {"zarr", "numpy", "psycopg", "psycopg-binary"} <= names
    assert not names & {"pytest", "mypy", "moto", "sphinx"}
    needs = {"root": ["zarr"], "zarr": ["numpy", "pytest"], "numpy": [], "pytest": []}
    bill = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [{"bom-ref": name, "name": name} for name in ("zarr", "numpy", "pytest")],
        "dependencies": [{"ref": name, "dependsOn": more} for name, more in needs.items()],
    }
    found = recipe.of_the_package(bill, names)
    assert [each["name"] for each in found["components"]] == ["zarr", "numpy"]
    assert found["dependencies"][1] == {"ref": "zarr", "dependsOn": ["numpy"]}
