"""Build what an index gets, from a commit alone, check it, and tag the commit: ``make release ADDRESS=https://...``.

Nothing is sent anywhere. ADDRESS is where people read the files of the repository, without a slash at its end: links
of the README lead there, since an index has no other file. ``.venv`` runs this; the tools are in build/releasing.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "build" / "releasing" / "bin"
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?(\))")
CARRIED = ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "src/blockveil/py.typed")


def absolute(text: str, address: str, version: str, tree: Path) -> str:
    """A page with its relative links led to the files of a version; a file that is not there is an error."""

    def lead(found: re.Match[str]) -> str:
        before, target, part, after = found.groups()
        if not (tree / target).exists():
            raise SystemExit(f"README.md leads to {target}, which is not in the commit. Correct the link")
        kind = "raw" if before.startswith("!") else "blob"
        return f"{before}{address}/{kind}/v{version}/{target}{part or ''}{after}"

    return LINK.sub(lead, text)


def with_addresses(project: str, address: str, version: str) -> str:
    """The project's settings with its addresses, which the repository does not know."""
    urls = {
        "Source": address,
        "Documentation": f"{address}/tree/v{version}/docs",
        "Changelog": f"{address}/blob/v{version}/CHANGELOG.md",
        "Security": f"{address}/blob/v{version}/SECURITY.md",
    }
    lines = "\n".join(f'{name} = "{url}"' for name, url in urls.items())
    return f"[project.urls]\n{lines}\n\n{project}"


def unready(version: str, changelog: str, fragments: list[str], changed: str, tags: list[str]) -> list[str]:
    """What keeps a commit from being released, in words."""
    dated = re.search(rf"(?m)^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog)
    return [
        *([f"The tree has changes that are not committed: {changed.splitlines()[0]}"] if changed else []),
        *([] if dated else [f"CHANGELOG.md has no section `## {version} (DATE)`"]),
        *([f"changes/ still holds {', '.join(fragments)}: move them into CHANGELOG.md"] if fragments else []),
        *([f"v{version} is a tag already: raise blockveil.__version__"] if f"v{version}" in tags else []),
    ]


def needed(requirements: Iterable[str]) -> set[str]:
    """Names of all that requirements bring with their extras, as installed in this environment."""
    left, seen = [Requirement(text) for text in requirements], set()
    while left:
        wanted = left.pop()
        for extra in ("", *wanted.extras):
            if (key := (canonicalize_name(wanted.name), extra)) not in seen:
                seen.add(key)
                brought = map(Requirement, metadata.requires(wanted.name) or ())
                left += [each for each in brought if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def of_the_package(bill: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A bill of materials with these packages alone: the tool lists everything in the environment."""
    root = bill["metadata"]["component"]["bom-ref"]
    components = [each for each in bill["components"] if canonicalize_name(each["name"]) in names]
    kept = {root, *(each["bom-ref"] for each in components)}
    needs = [each for each in bill["dependencies"] if each["ref"] in kept]
    needs = [{**each, "dependsOn": [on for on in each.get("dependsOn", []) if on in kept]} for each in needs]
    return {**bill, "components": components, "dependencies": needs}


def problems(wheel: Path, sdist: Path) -> list[str]:
    """What an index or a user would miss in what was built."""
    with zipfile.ZipFile(wheel) as files, tarfile.open(sdist) as source:
        (described,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        page = message_from_bytes(files.read(described)).get_payload()
        licences = {Path(name).name for name in files.namelist() if ".dist-info/licenses/" in name}
        carried = {name.partition("/")[2] for name in source.getnames()}
    return [
        *(f"the index page has a relative link: {found[2]}" for found in LINK.finditer(str(page))),
        *(f"the wheel lacks {name}" for name in ("LICENSE", "NOTICE") if name not in licences),
        *(f"the source distribution lacks {name}" for name in CARRIED if name not in carried),
    ]


def run(*words: object, cwd: Path = ROOT) -> str:
    """What a command prints; its failure ends this program."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{' '.join(map(str, words[:3]))} ended with {done.returncode}")
    return done.stdout


def ready(tree: Path) -> str:
    """Lay out the commit in a folder; its version, or the end of this program where it cannot be released."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tree, filter="tar")
    version = re.findall(r'(?m)^__version__ = "(.+)"$', (tree / "src/blockveil/__init__.py").read_text())[0]
    fragments = sorted(path.name for path in tree.glob("changes/*.md") if path.name != "README.md")
    tags, changed = run("git", "tag").split(), run("git", "status", "--porcelain")
    if why := unready(version, (tree / "CHANGELOG.md").read_text(), fragments, changed, tags):
        raise SystemExit("Not released: " + "; ".join(why))
    return str(version)


def write_bill(tree: Path, version: str, target: Path) -> None:
    """Write the software bill of materials: what the package and its extras need, as installed in this environment."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    extras = [each for name, found in project["optional-dependencies"].items() if name != "dev" for each in found]
    words = ["environment", "--pyproject", tree / "pyproject.toml", "--output-reproducible", "--of", "JSON"]
    bill = json.loads(run(TOOLS / "cyclonedx-py", *words, sys.executable))
    bill["metadata"]["component"]["version"] = version
    target.write_text(json.dumps(of_the_package(bill, needed([*project["dependencies"], *extras])), indent=1))


def main(target: Path, address: str) -> None:
    """Build, check and tag."""
    if not address.startswith("https://"):
        raise SystemExit("Say where the repository is read: make release ADDRESS=https://HOST/OWNER/NAME")
    if target.exists():
        raise SystemExit(f"{target} is there already. Remove it, so that nothing of another build is released")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        version = ready(tree)
        (tree / "README.md").write_text(absolute((tree / "README.md").read_text(), address, version, tree))
        (tree / "pyproject.toml").write_text(with_addresses((tree / "pyproject.toml").read_text(), address, version))
        run(TOOLS / "pyproject-build", "--no-isolation", "--outdir", target, tree)
        (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
        run(TOOLS / "twine", "check", "--strict", wheel, sdist)
        if why := problems(wheel, sdist):
            raise SystemExit("Not released: " + "; ".join(why))
        write_bill(tree, version, target / f"blockveil-{version}.cdx.json")
    for path in sorted(target.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}  {path.stat().st_size:,} bytes")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"Blockveil {version}")
    print(f"Tagged v{version}, here alone. docs/contributing/release.md says what comes next.")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "")
