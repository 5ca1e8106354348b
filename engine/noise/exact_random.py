"""Random numbers whose law is exact: whole numbers only, from the bits of a key.

Everything follows from independent fair bits, the key stream, by comparing whole numbers, so no law here is rounded.
How many bits a draw reads is random and shows in time; it depends on the draw alone, not on records.

**Source**: Canonne, Kamath and Steinke, 2020, Algorithms 1 to 3.
"""

from __future__ import annotations

from blockveil.engine.noise.discrete_gaussian import NoiseKey

_LANE = 64
"""Beyond the lanes of all other samplers."""

_BYTES_A_CALL = 4096


class KeyBits:
    """Independent fair bits of a key, read one after the other: a pure function of key, stream, draw and position.

    Parameters
    ----------
    key
        Key of the release.
    stream
        Number of an independent release under the same key, below 2**16.
    draw
        Number of the draw within it, below 2**32.
    """

    def __init__(self, key: NoiseKey, stream: int, draw: int) -> None:
        self._key = key
        self._head = stream.to_bytes(2) + bytes((_LANE, 0)) + draw.to_bytes(4)
        self._call = 0
        self._pool = 0
        self._held = 0

    def bits(self, count: int) -> int:
        """A whole number uniform below ``2**count``."""
        while self._held < count:
            counter = self._head + self._call.to_bytes(4) + bytes(4)
            self._pool = (self._pool << (8 * _BYTES_A_CALL)) | int.from_bytes(self._key.stream(counter, _BYTES_A_CALL))
            self._held += 8 * _BYTES_A_CALL
            self._call += 1
        self._held -= count
        number = self._pool >> self._held
        self._pool &= (1 << self._held) - 1
        return number

    def below(self, limit: int) -> int:
        """A whole number uniform below a positive limit."""
        width = (limit - 1).bit_length()
        while (number := self.bits(width)) >= limit:
            pass
        return number

    def exponential_trial(self, exponent: int, bits: int) -> bool:
        """True with probability ``exp(-exponent / 2**bits)`` exactly; the exponent is not negative."""
        whole = exponent >> bits
        for _ in range(whole):
            if not self._trial(1 << bits, bits):
                return False
        return self._trial(exponent - (whole << bits), bits)

    def _trial(self, exponent: int, bits: int) -> bool:
        """Bernoulli trial for an exponent of at most one: the first k that fails a chance of ``x / k`` is odd."""
        k = 1
        while self.below(k << bits) < exponent:
            k += 1
        return k % 2 == 1

    def discrete_gaussian(self, bits: int) -> int:
        """A whole number y with probability proportional to ``exp(-y^2 / 2**(2 bits + 1))``."""
        while True:
            magnitude = self.two_sided_geometric(bits)
            if self.exponential_trial((abs(magnitude) - (1 << bits)) ** 2, 2 * bits + 1):
                return magnitude

    def two_sided_geometric(self, bits: int) -> int:
        """A whole number y with probability proportional to ``exp(-|y| / 2**bits)``."""
        while True:
            low = self.bits(bits)
            if not self.exponential_trial(low, bits):
                continue
            high = 0
            while self._trial(1, 0):
                high += 1
            magnitude, negative = (high << bits) + low, self.bits(1)
            if not (negative and magnitude == 0):
                return -magnitude if negative else magnitude
