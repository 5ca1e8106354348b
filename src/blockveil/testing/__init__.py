"""What tests of mechanisms and ledgers in any package inherit: the contracts that those of the product keep themselves.

``MechanismContract`` and ``ReleaseContract`` (:mod:`.mechanism`) are for mechanisms, ``LedgerContract``
(:mod:`.ledger`) and ``PartsContract`` (:mod:`.parts`) for ledgers, ``RecordingKey`` (:mod:`.recording`) for programs
that draw noise. They need pytest, which the product itself does not.
"""

import pytest

for _module in ("mechanism", "ledger", "parts", "recording", "ledger_support", "ledger_processes"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")
