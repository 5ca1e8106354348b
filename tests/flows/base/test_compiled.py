"""Compiled code: kept where nobody else can write, in memory elsewhere, and never needed."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from blockveil.engine.answers import compiled_halves
from blockveil.engine.noise import compiled_levels
from blockveil.engine.records import one_pass
from blockveil.flows.base import compiled
from blockveil.flows.cluster import computing
from tests.house import support

numba = pytest.importorskip("numba")

LOAD = """
import logging, sys
logging.basicConfig(stream=sys.stderr, format="%(message)s")
from blockveil.flows.base import compiled
made = compiled.prepare()
print(None not in (made.records, made.noise), compiled.folder())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty place for caches, below a folder that nobody else may write to, and a process that has tried nothing."""
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.setattr(compiled, "_tried", [])
    yield place
    one_pass.use(None)
    compiled_levels.use(None)
    compiled_halves.use(None)


def in_a_process(**environment):
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout.strip(), done.stderr


def files(place):
    return sorted(path for path in place.rglob("*") if path.is_file())


@pytest.mark.slow
def test_what_is_compiled_is_kept_in_a_folder_of_this_user_alone_and_found_again(cache):
    assert in_a_process() == (f"True {compiled.folder()}", "")
    kept = {path: path.stat().st_mtime_ns for path in files(cache)}
    assert {path.suffix for path in kept} == {".nbi", ".nbc"}
    assert stat.S_IMODE(compiled.folder().stat().st_mode) == 0o700
    assert in_a_process() == (f"True {compiled.folder()}", "")
    assert {path: path.stat().st_mtime_ns for path in files(cache)} == kept


def test_an_open_mask_of_file_modes_opens_no_folder(cache):
    before = os.umask(0)
    try:
        place = compiled.folder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o755])
def test_a_folder_that_others_may_write_to_or_look_into_is_not_used(cache, mode, caplog):
    compiled.folder().chmod(mode)
    assert compiled.folder() is None
    assert "not this user's alone" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
@pytest.mark.parametrize("level", ["blockveil", "."])
def test_a_folder_below_one_that_others_may_write_to_is_not_used(cache, mode, level, caplog):
    assert compiled.folder() is not None
    (cache / level).chmod(mode)
    assert compiled.folder() is None
    assert "other accounts may write" in caplog.text


def test_a_sticky_folder_above_is_none_in_which_others_rename(cache):
    cache.chmod(0o1777)
    assert compiled.folder() is not None


def owned_by(monkeypatch, path, number):
    """Let a path belong to another account, which only root could arrange in truth."""
    real = type(path).lstat

    def told(self):
        found = real(self)
        if self != path:
            return found
        return SimpleNamespace(st_mode=found.st_mode, st_uid=number)

    monkeypatch.setattr(type(path), "lstat", told)


@pytest.mark.parametrize("which", ["itself", "above", "file"])
def test_what_belongs_to_another_account_is_not_used(cache, monkeypatch, which):
    place = compiled.folder()
    (place / "planted.nbi").write_bytes(b"code")
    owned_by(monkeypatch, {"itself": place, "above": cache, "file": place / "planted.nbi"}[which], os.geteuid() + 1)
    assert compiled.folder() is None


def test_root_may_own_the_folders_above(cache, monkeypatch):
    assert compiled.folder() is not None
    owned_by(monkeypatch, cache, 0)
    assert compiled.folder() is not None


def test_a_link_in_place_of_the_folder_or_in_it_is_not_followed(cache, tmp_path):
    place = compiled.folder()
    place.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.symlink_to(elsewhere)
    assert compiled.folder() is None
    place.unlink()
    compiled.folder()
    (place / "planted").symlink_to(elsewhere)
    assert compiled.folder() is None


def test_a_link_above_is_judged_by_where_it_leads(cache, tmp_path, monkeypatch):
    target = tmp_path / "shared"
    target.mkdir()
    target.chmod(0o777)
    (cache / "link").symlink_to(target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "link"))
    assert compiled.folder() is None


def test_other_sources_and_another_compiler_have_another_folder(cache, monkeypatch):
    before = compiled.folder()
    monkeypatch.setattr(compiled, "version", lambda name: "0.0")
    assert compiled.folder() != before


@pytest.mark.slow
def test_without_a_place_the_code_is_compiled_in_memory(cache, tmp_path):
    (tmp_path / "file").write_text("")
    printed, told = in_a_process(XDG_CACHE_HOME=str(tmp_path / "file" / "below"))
    assert printed == "True None"
    assert "not kept on disk: NotADirectoryError" in told
    assert not files(cache)


@pytest.mark.slow
def test_damaged_files_are_compiled_anew_or_left_aside(cache):
    in_a_process()
    for path in files(cache):
        path.write_bytes(path.read_bytes()[:40])
    assert in_a_process()[0].startswith("True")


@pytest.mark.slow
def test_processes_that_begin_together_share_a_folder(cache):
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: in_a_process(), range(3)))
    assert done == [(f"True {compiled.folder()}", "")] * 3
    assert in_a_process() == (f"True {compiled.folder()}", "")


def test_without_the_extra_numpy_does_the_work(cache, monkeypatch, caplog):
    monkeypatch.setattr(compiled, "is_installed", lambda name: False)
    assert compiled.prepare() == compiled.Compiled()
    assert not files(cache)
    assert not caplog.text


def test_where_compiling_is_switched_off_numpy_does_the_work(cache):
    printed, told = in_a_process(NUMBA_DISABLE_JIT="1")
    assert printed.startswith("False")
    assert "RuntimeError" in told


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A present folder in which somebody has put settings of the compiler."""
    place = tmp_path / "strange"
    place.mkdir()
    (place / ".numba_config.yaml").write_text("disable_jit: 1\ncache_locator_classes: strange.Locator\n")
    monkeypatch.chdir(place)


SETTINGS = """
from numba.core import config
print(config.DISABLE_JIT, config.CACHE_LOCATOR_CLASSES)
from blockveil.flows.base import compiled
compiled._forget_the_folder(config)
print(config.DISABLE_JIT, config.CACHE_LOCATOR_CLASSES, config.BOUNDSCHECK)
config.reload_config()  # as the compiler does for each function
print(config.DISABLE_JIT, config.CACHE_LOCATOR_CLASSES, config.BOUNDSCHECK)
"""


@pytest.mark.usefixtures("strange")
def test_settings_in_the_folder_where_a_command_is_called_are_forgotten_before_anything_is_compiled():
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SETTINGS], env=environment, capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout.splitlines() == ["1 strange.Locator", *["0  1"] * 2], "those of the environment stay"


@pytest.mark.slow
@pytest.mark.usefixtures("strange")
def test_with_such_settings_code_is_compiled_and_kept_as_always(cache):
    assert in_a_process()[0] == f"True {compiled.folder()}"
    assert {path.suffix for path in files(cache)} == {".nbi", ".nbc"}


def test_a_compiler_whose_file_of_settings_is_not_known_is_not_used(cache, monkeypatch):
    monkeypatch.delattr(numba.core.config, "_config_fname")
    assert compiled.prepare() == compiled.Compiled()


PARTS = [one_pass, compiled_levels, compiled_halves]


@pytest.mark.parametrize("refused", PARTS)
def test_code_that_gives_other_integers_is_not_used_and_the_rest_is(cache, monkeypatch, caplog, refused):
    def refuse(compiler):
        raise ArithmeticError("never shown")

    for part in PARTS:
        monkeypatch.setattr(part, "compiled_by", refuse if part is refused else lambda compiler: "kernel")
    compiled.prepare()
    assert [part._in_use for part in PARTS] == [[] if part is refused else ["kernel"] for part in PARTS]
    assert "ArithmeticError" in caplog.text
    assert "never shown" not in caplog.text


def test_a_process_tries_once(cache, monkeypatch):
    tried = []
    monkeypatch.setattr(compiled, "_prepare", lambda: tried.append(1) or True)
    assert compiled.prepare()
    assert compiled.prepare()
    assert tried == [1]


@pytest.mark.parametrize(("values", "entries", "wanted"), [(1, 2**26, True), (2**30, 1, True), (2**30, 2**26, False)])
def test_large_work_alone_is_prepared_before_it_begins(cache, tmp_path, monkeypatch, values, entries, wanted):
    prepared = []
    monkeypatch.setattr(compiled, "WORTH_VALUES", values)
    monkeypatch.setattr(compiled, "WORTH_ENTRIES", entries)
    monkeypatch.setattr(compiled, "prepare", lambda: prepared.append(1))
    loaded = support.prepare(tmp_path, cluster="threads")
    with computing.open_compute(loaded):
        assert bool(prepared) is wanted


def in_use():
    kernels = [kernel for both in one_pass._in_use for kernel in (both.moved, both.finely_moved, both.nearest)]
    halves = [kernel for both in compiled_halves._in_use for kernel in (both.split, both.fold)]
    return [kernel.__module__ for kernel in [*kernels, *compiled_levels._in_use, *halves]]


@pytest.mark.slow
def test_workers_have_compiled_code_before_their_first_task(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_VALUES", 1)
    with computing.open_compute(support.prepare(tmp_path, cluster="local")) as compute:
        found = compute._client.run(in_use)
    assert found
    modules = ["blockveil.engine.records.record_kernels"] * 3 + ["blockveil.engine.noise.compiled_levels"]
    modules += ["blockveil.engine.answers.compiled_halves"] * 2
    assert list(found.values()) == [modules] * len(found)
