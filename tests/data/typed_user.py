"""What a user's own type checker sees of the package; tests/end_to_end/test_wheel.py checks it against the wheel."""

from pathlib import Path
from typing import assert_type

import blockveil as bv
from blockveil.flows.python.granting import BudgetOfConfig

assert_type(bv.__version__, str)
assert_type(bv.run("people.toml", date="2026-11-20"), bv.Release)
assert_type(bv.open("releases/people/body"), bv.Release)
assert_type(bv.ingest("ingest.toml"), Path)
assert_type(bv.budget("people.toml"), BudgetOfConfig)
assert_type(bv.plan("people.toml").warnings, list[str])

bv.run("people.toml", date=20261120)  # type: ignore[arg-type]
print(bv.no_such_name)  # type: ignore[attr-defined]
