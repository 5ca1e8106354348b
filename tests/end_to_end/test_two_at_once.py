"""Two processes that write the same place at once: each ends well, and what is there is whole and right."""

import json
import subprocess
import sys
import time

import pytest

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests.flows.cli.test_named_places import NIGHT, prepare

BOTH = {
    "certificate": f"export certificate {NIGHT} --config people.toml --output small/certificate.html",
    "approve": "ledger approve signed.toml --date 2026-11-21 --sign file:officer.pem --by Ann --why x --output small/a",
    "site": "export site . --output small/site",
    "withdraw": f"ledger withdraw people.toml {NIGHT} --why wrong",
}
CALL = """
import sys, time
from blockveil.flows.cli import main
time.sleep(max(0.0, float(sys.argv.pop(1)) - time.time()))
main()
"""


def whole(folder, name):
    """What is read of a result by whoever comes while it is written, or afterwards."""
    if name == "certificate":
        text = (folder / "small" / "certificate.html").read_text()
        assert text.rstrip().endswith("</html>")
    elif name == "approve":
        assert json.loads((folder / "small" / "a").read_text())["name"] == "Ann"
    elif name == "site":
        pages = json.loads((folder / "small" / "site" / "pages.json").read_text())
        assert all((folder / "small" / "site" / each).is_file() for each in pages)
    else:
        assert json.loads((folder / "releases" / f"{NIGHT}.json").read_text())["release_id"] == NIGHT


@pytest.mark.slow
def test_two_at_once_both_end_well_and_nothing_is_torn(tmp_path):
    folder = prepare(tmp_path)
    (folder / "small").mkdir()
    for name, words in BOTH.items():
        start = str(time.time() + 4)
        both = [
            subprocess.Popen(
                [sys.executable, "-c", CALL, start, *words.split()],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        said = [each.communicate(timeout=250) for each in both]
        assert [each.returncode for each in both] == [0, 0], (name, said)
        whole(folder, name)
        assert not [each for each in folder.rglob(".*") if ".staging" in each.name or each.name == ".site.lock"]
    assert len(list((folder / "small").glob(".site-*"))) == 1
    ledger = Ledger(load_config(folder / "people.toml").ledger_url)
    assert [entry.kind for entry in ledger.history()].count("WITHDRAWN") == 1
    assert ledger.verify().problems == []
    assert "withdrawn" in json.loads((folder / "releases" / f"{NIGHT}.json").read_text())
