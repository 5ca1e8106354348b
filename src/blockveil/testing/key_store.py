"""What every key store must keep. A test class inherits this and gives ``opened``.

``opened()`` opens the same store anew, as another process would; it is empty when a test begins.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from blockveil.pipeline.releases.keys import SECRET_BYTES, NoiseKeys

CHARGE, OTHER = "ab" * 16, "cd" * 16
RACERS = 16


class KeyStoreContract:
    """Secrets that are durable, one a charge, and gone once they are destroyed."""

    def test_it_is_a_key_store(self, opened):
        assert isinstance(opened(), NoiseKeys)

    def test_a_secret_has_its_size_stays_the_same_and_is_of_one_charge(self, opened):
        secret = opened().create(CHARGE)
        assert len(secret) == SECRET_BYTES
        assert opened().create(CHARGE) == secret == opened().read(CHARGE)
        others = {opened().create(f"{number:032x}") for number in range(16)}
        assert len(others | {secret}) == 17
        assert len({byte for one in others for byte in one}) > 100  # 512 random bytes have some 220 of 256 values

    def test_what_was_never_made_is_none(self, opened):
        assert opened().read(CHARGE) is None
        assert opened().list() == []

    def test_the_list_names_the_charges_that_have_a_secret(self, opened):
        for charge in (OTHER, CHARGE):
            opened().create(charge)
        assert opened().list() == [CHARGE, OTHER]
        opened().destroy(OTHER)
        assert opened().list() == [CHARGE]

    def test_a_destroyed_secret_is_gone_and_a_new_one_is_another(self, opened):
        secret = opened().create(CHARGE)
        opened().destroy(CHARGE)
        opened().destroy(CHARGE)  # another attempt does the same
        assert opened().read(CHARGE) is None
        assert opened().create(CHARGE) != secret

    def test_attempts_that_race_get_one_secret(self, opened):
        stores = [opened() for _ in range(RACERS)]
        with ThreadPoolExecutor(RACERS) as pool:
            found = set(pool.map(lambda store: store.create(CHARGE), stores))
        assert len(found) == 1
        assert opened().read(CHARGE) in found

    def test_a_secret_outlives_the_process_that_made_it(self, opened):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, opened().create(CHARGE))
            os._exit(0)  # as a kill would: nothing is closed, flushed or awaited
        assert os.waitpid(child, 0)[1] == 0
        os.close(writer)
        with os.fdopen(reader, "rb") as output:
            assert output.read() == opened().read(CHARGE) != b""

    @pytest.mark.parametrize("charge", ["", "ab", "AB" * 16, "../" + "ab" * 16, "ab" * 15 + "/x", "ab" * 33])
    def test_a_name_that_is_none_of_a_charge_is_refused(self, opened, charge):
        for use in (opened().create, opened().read, opened().destroy):
            with pytest.raises(ValueError, match="hexadecimal"):
                use(charge)
