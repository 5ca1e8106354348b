"""Kernels are asked for where the linear algebra library does not know the processor, and only there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.processor import kernels

FLAGS = "fpu avx2 fma avx512f avx512cd avx512bw avx512dq avx512vl"


def processor(vendor="AuthenticAMD", family="26", flags=FLAGS):
    one = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel name\t: x\nflags\t\t: {flags}\n"
    return f"{one}\n{one}\n"


def test_a_family_that_the_library_does_not_know_gets_the_kernels_that_its_instructions_allow():
    assert kernels(processor()) == "SkylakeX"
    assert kernels(processor(family="27")) == "SkylakeX"


@pytest.mark.parametrize(
    "text",
    [
        processor(family="25"),
        processor(vendor="GenuineIntel", family="6"),
        processor(flags="fpu avx2 fma avx512f"),
        "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n",
        "",
    ],
)
def test_all_other_processors_are_left_to_the_library(text):
    assert kernels(text) is None


@pytest.mark.parametrize("given", [None, "Haswell"])
def test_the_choice_is_made_before_numpy_is_there_and_a_choice_of_the_user_stays(given):
    script = "import sys, os, flows; print(os.environ.get('OPENBLAS_CORETYPE'), 'numpy' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    if given is not None:
        environment["OPENBLAS_CORETYPE"] = given
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    source = Path("/proc/cpuinfo")
    assert found == [given or str(kernels(source.read_text()) if source.exists() else None), "False"]
