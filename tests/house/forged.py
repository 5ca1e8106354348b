"""Releases as a forger writes them: something is changed, and digest, name and pointer are made to agree with it."""

import json
from contextlib import suppress

import zarr

from blockveil.pipeline.data.content import Labelled, content_digest
from blockveil.pipeline.data.pointers import COPIED


def forged(group, change=lambda stated: None):
    """The folder of a release under its new digest.

    ``group`` is the folder; its arrays may have been changed before, and ``change`` is given what it states.
    """
    file = group / "zarr.json"
    content = json.loads(file.read_text())
    stated = content["attributes"]
    change(stated)
    arrays = {name: Labelled.of(array) for name, array in zarr.open_group(group, mode="r").arrays()}
    with suppress(ValueError):  # a number that JSON cannot hold
        stated["output_digest"] = content_digest(arrays, stated)
    file.write_text(json.dumps(content))
    pointer = group.with_name(f"{group.name[:10]}.json")
    renamed = group.rename(group.with_name(f"{group.name[:10]}-{stated['output_digest'][:16]}.zarr"))
    if pointer.exists():
        said = {name: stated[name] for name in COPIED if name in stated}
        said |= {"path": renamed.name, "output_digest": stated["output_digest"]}
        pointer.write_text(json.dumps(said))
    return renamed


def replaced(stated, text, by):
    """What a release states, with one text in place of another wherever it stands."""
    return json.loads(json.dumps(stated).replace(text, json.dumps(by)[1:-1]))
