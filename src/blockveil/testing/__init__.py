"""What tests of any package inherit: the contracts that the product's own mechanisms, ledgers and key stores keep.

``MechanismContract`` and ``ReleaseContract`` (:mod:`.mechanism`) are for mechanisms, ``LedgerContract``
(:mod:`.ledger`) and ``PartsContract`` (:mod:`.parts`) for ledgers, ``KeyStoreContract`` (:mod:`.key_store`) for key
stores, ``RecordingKey`` (:mod:`.recording`) for programs that draw noise. They need pytest, which
the product itself does not.
"""

import pytest

for _module in ("mechanism", "ledger", "parts", "key_store", "recording", "ledger_support", "ledger_processes"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")
