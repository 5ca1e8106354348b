"""Where a task finds the noise key of its release: a registry of this process, by public handle.

Keys are installed by whoever runs the graph and forgotten after it, so that they never are task arguments.
"""

from __future__ import annotations

from blockveil.engine.noise.discrete_gaussian import NoiseKey

_keys: dict[str, NoiseKey] = {}


class MissingNoiseKey(KeyError):
    """No key is installed under a handle in this process."""

    def __str__(self) -> str:
        """Say what is missing without more."""
        return "the noise key is not installed where the task runs"


def install(handle: str, key: NoiseKey) -> None:
    """Make a key known under a handle; replaces one of the same handle."""
    _keys[handle] = key


def fetch(handle: str) -> NoiseKey:
    """Key of a handle.

    Raises
    ------
    MissingNoiseKey
        It is not installed here.
    """
    try:
        return _keys[handle]
    except KeyError:
        pass
    raise MissingNoiseKey(handle)


def knows(handle: str) -> bool:
    """Whether a key is installed under a handle here."""
    return handle in _keys


def forget(handle: str) -> None:
    """Remove a key; silent when it is not there."""
    _keys.pop(handle, None)
