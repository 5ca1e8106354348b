"""Releases as a stranger may send them: each is a small change of a real one, made to wear a reader out or to deceive.

Where a change would break the digest, the digest is made anew, as whoever sends a release can do.
"""

import json
import os
import shutil
import socket
import warnings

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from tests.house.forged import forged

CASES = {}


def case(change):
    """Name a change; it is given the folder of the release."""
    CASES[change.__name__] = change
    return change


def described(group, name):
    """Metadata of an array, and how to write them."""
    file = group / name / "zarr.json"
    return json.loads(file.read_text()), lambda said: file.write_text(json.dumps(said))


def each_number(value, change):
    """The same with every number changed."""
    if isinstance(value, dict):
        return {name: each_number(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [each_number(one, change) for one in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return change(value) if is_number else value


def all_numbers(number):
    def forge(stated):
        kept = {name: stated[name] for name in ("ledger", "software")}
        stated.update(each_number(stated, lambda _: number), **kept)

    return forge


@case
def sparse_matrix(group):
    said, write = described(group, "covariance")
    said["shape"], said["chunk_grid"]["configuration"]["chunk_shape"] = [30_000, 30_000], [6, 6]
    write(said)


@case
def huge_vector(group):
    said, write = described(group, "mean")
    said["shape"], said["chunk_grid"]["configuration"]["chunk_shape"] = [2**52], [1]
    write(said)


@case
def huge_chunk(group):
    said, write = described(group, "covariance")
    said["chunk_grid"]["configuration"]["chunk_shape"] = [40_000, 40_000]
    write(said)


@case
def one_chunk_is_missing(group):
    (group / "covariance" / "c" / "0" / "0").unlink()


@case
def many_arrays(group):
    for number in range(500):
        shutil.copytree(group / "count", group / f"count{number:05d}")
    return forged(group)


@case
def nested_groups(group):
    place = group
    for _ in range(200):
        place = place / "g"
        place.mkdir()
        shutil.copy(group / "zarr.json", place)


@case
def pipe_as_chunk(group):
    (group / "covariance" / "c" / "0" / "0").unlink()
    os.mkfifo(group / "covariance" / "c" / "0" / "0")


@case
def pipe_as_metadata(group):
    (group / "zarr.json").unlink()
    os.mkfifo(group / "zarr.json")


@case
def pipe_as_metadata_of_an_array(group):
    (group / "mean" / "zarr.json").unlink()
    os.mkfifo(group / "mean" / "zarr.json")


@case
def pipe_as_pointer(group):
    pointer = group.with_name(f"{group.name[:10]}.json")
    pointer.unlink()
    os.mkfifo(pointer)


@case
def pipe_as_release(group):
    shutil.rmtree(group)
    os.mkfifo(group)


@case
def socket_as_chunk(group):
    place = group / "covariance" / "c" / "0" / "0"
    place.unlink()
    before = os.getcwd()
    os.chdir(place.parent)  # its path may be too long for a socket
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(before)


@case
def link_to_a_device(group):
    (group / "zarr.json").unlink()
    (group / "zarr.json").symlink_to("/dev/zero")


@case
def link_out_of_the_release(group):
    shutil.rmtree(group / "covariance" / "c")
    (group / "covariance" / "c").symlink_to("/etc")


@case
def link_to_a_copy_of_a_chunk(group):
    chunk = group / "covariance" / "c" / "0" / "0"
    chunk.rename(group.parent / "elsewhere")
    chunk.symlink_to(group.parent / "elsewhere")


@case
def pointer_is_a_link_to_a_device(group):
    pointer = group.with_name(f"{group.name[:10]}.json")
    pointer.unlink()
    pointer.symlink_to("/dev/zero")


@case
def pointer_leads_out(group):
    pointer = group.with_name(f"{group.name[:10]}.json")
    said = json.loads(pointer.read_text())
    pointer.write_text(json.dumps({**said, "path": "../../../../../../etc/passwd"}))


@case
def pointer_with_steering_characters(group):
    pointer = group.with_name(f"{group.name[:10]}.json")
    said = json.loads(pointer.read_text())
    pointer.write_text(json.dumps({**said, "release_id": "\x1b[2Jpeople\u202e/covariance"}))


@case
def metadata_of_100_megabytes(group):
    with (group / "zarr.json").open("r+b") as file:
        file.truncate(100 * 2**20)


@case
def metadata_nested_deeply(group):
    text = (group / "zarr.json").read_text()
    deep = '"attributes": {"x": ' + "[" * 100_000 + "]" * 100_000 + ","
    (group / "zarr.json").write_text(text.replace('"attributes": {', deep, 1))


@case
def metadata_with_a_number_of_5000_digits(group):
    text = (group / "zarr.json").read_text()
    (group / "zarr.json").write_text(text.replace('"attributes": {', '"attributes": {"x": ' + "9" * 5_000 + ",", 1))


@case
def metadata_with_a_name_twice(group):
    text = (group / "zarr.json").read_text()
    twice = '"attributes": {"title": "Exact", "title": "Exact",'
    (group / "zarr.json").write_text(text.replace('"attributes": {', twice, 1))


@case
def metadata_of_an_earlier_format_beside(group):
    (group / "mean" / ".zarray").write_text('{"zarr_format": 2}')


@case
def consolidated_metadata(group):
    with warnings.catch_warnings(action="ignore"):  # that the format does not have it yet
        zarr.consolidate_metadata(group)


@case
def metadata_with_a_number_that_is_none(group):
    text = (group / "zarr.json").read_text()
    (group / "zarr.json").write_text(text.replace('"attributes": {', '"attributes": {"x": NaN, "y": -Infinity,', 1))


@case
def metadata_with_a_number_beyond_floats(group):
    text = (group / "zarr.json").read_text()
    (group / "zarr.json").write_text(text.replace('"attributes": {', '"attributes": {"x": 1e999,', 1))


@case
def array_with_a_hidden_name(group):
    shutil.copytree(group / "count", group / "count\u202e\x1b[2J")


@case
def links_that_lead_to_each_other(group):
    (group / "one").symlink_to("two")
    (group / "two").symlink_to("one")


@case
def link_to_itself_above(group):
    (group / "covariance" / "again").symlink_to("..")


@case
def codec_of_a_plugin(group):
    said, write = described(group, "mean")
    said["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    write(said)


@case
def codec_named_like_a_module(group):
    said, write = described(group, "mean")
    said["codecs"][0] = {"name": "os.system", "configuration": {"command": "true"}}
    write(said)


@case
def matrix_that_is_a_text(group):
    return forged(group, lambda stated: stated.update(matrix="feature"))


@case
def errors_of_another_size(group):
    width = zarr.open_array(group / "covariance_standard_deviation", mode="r").shape[0] + 1
    shutil.rmtree(group / "covariance_standard_deviation")
    zarr.open_group(group, mode="r+").create_array(
        "covariance_standard_deviation", data=np.ones((width, width)), fill_value=float("nan"),
        compressors=(ZstdCodec(level=1), Crc32cCodec()), dimension_names=("feature", "feature_"),
    )  # fmt: skip
    return forged(group)


@case
def several_promises_of_10_to_15(group):
    return forged(group, all_numbers(10**15))


@case
def numbers_of_nothing(group):
    return forged(group, all_numbers(0))


@case
def numbers_of_300_digits(group):
    return forged(group, all_numbers(1e300))


@case
def numbers_below_zero(group):
    return forged(group, all_numbers(-(10**15)))


@case
def more_features_than_values(group):
    def forge(stated):
        features = stated["query"]["geometry"]["features"]
        stated["query"]["geometry"]["features"] = [dict(features[0], name=f"g{number}") for number in range(100_000)]

    return forged(group, forge)


@case
def as_many_features_as_it_says_and_little_stored(group):
    width = 20_000
    for name, shape in (("covariance", (width, width)), ("mean", (width,))):
        shutil.rmtree(group / name)
        chunks = tuple(1024 for _ in shape)
        zarr.open_group(group, mode="r+").create_array(
            name, shape=shape, chunks=chunks, dtype="<f8", fill_value=float("nan"),
            compressors=(ZstdCodec(level=1), Crc32cCodec()), config={"write_empty_chunks": True},
        )  # fmt: skip
        first = group / name / "c" / "/".join("0" for _ in shape)
        zarr.open_array(group / name, mode="r+")[tuple(slice(0, 1024) for _ in shape)] = 1.0
        for position in np.ndindex(*(-(-length // 1024) for length in shape)):
            place = group / name / "c" / "/".join(map(str, position))
            place.parent.mkdir(parents=True, exist_ok=True)
            if place != first:
                shutil.copy(first, place)


@case
def bomb(group):
    """A chunk of a few kilobytes that says that it becomes 64 MiB, and an array that says the usual."""
    packed = ZstdCodec(level=1)._zstd_codec.encode(bytes(2**26))
    (group / "covariance" / "c" / "0" / "0").write_bytes(Crc32c(packed))


def Crc32c(content):
    import google_crc32c

    return bytes(content) + google_crc32c.value(bytes(content)).to_bytes(4, "little")


@case
def bomb_of_texts(group):
    count = (2**32 - 1).to_bytes(4, "little")
    packed = ZstdCodec(level=1)._zstd_codec.encode(count + bytes(100))
    text = next(file.parent for file in group.glob("*/zarr.json") if '"string"' in file.read_text())
    (text / "c" / "0").write_bytes(Crc32c(packed))


@case
def other_codec(group):
    said, write = described(group, "mean")
    said["codecs"][1] = {"name": "gzip", "configuration": {"level": 5}}
    write(said)


@case
def fill_value_that_hides_values(group):
    said, write = described(group, "mean")
    said["fill_value"] = float(zarr.open_array(group / "mean", mode="r")[0])
    write(said)
    return forged(group)


@case
def promise_that_is_a_text_of_a_megabyte(group):
    def forge(stated):
        stated["guarantee"]["sentence"] = "<img src=x onerror=alert(1)>\x1b[2J\u202e" * 30_000

    return forged(group, forge)


@case
def tables_in_place_of_texts(group):
    return forged(group, lambda stated: stated.update(release_id={"a": 1}, matrix=["covariance"], title={}))


@case
def matrix_of_another_name(group):
    return forged(group, lambda stated: stated.update(matrix="../../etc/passwd"))


@case
def steps_of_a_training_without_end(group):
    def forge(stated):
        stated["mechanism"]["sampling"] = {"probability": 0.5, "steps": 10**15}
        stated["query"]["training"] = {"sampling_probability": 0.5, "steps": 10**15}

    return forged(group, forge)


@case
def nights_without_end(group):
    def forge(stated):
        stated["guarantee"]["nights"] = 10**15
        stated["mechanism"]["continual"] = {"nights": 10**15, "night": 1, "weights": [1] * 10}

    return forged(group, forge)


def strange(base, folder, name):
    """A changed copy of the folder of a release's nights: the root of all releases, and the release's folder."""
    nights = shutil.copytree(base, folder / "people" / base.name)
    (group,) = nights.glob("*.zarr")
    return folder, CASES[name](group) or group
