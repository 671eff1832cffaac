"""`regard doctor`: what is judged slow, on machines of all kinds; what is read of containers; that nothing is built."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

import pytest
import torch

import regard
from regard.checking import machine
from regard.checking.machine import examine, extras, quota, remarks
from regard.kernels import variants

QUIET: dict[str, Any] = {
    "processors": 8,
    "allowed": 8,
    "quota": None,
    "load": 0.5,
    "share": 1.0,
    "threads": 8,
    "environment": {"OMP_NUM_THREADS": None, "GOMP_SPINCOUNT": "1000", "OMP_WAIT_POLICY": None},
    "device": "cpu",
    "gpus": [],
    "built_for_gpus": False,
    "precision": {"auto": "bfloat16"},
    "kernels": {"variant": "AVX2", "state": "compiled", "why": "", "compiler": "/usr/bin/g++", "library": "x.so"},
    "memory": {"total": 16 << 30, "available": 8 << 30, "limit": None},
    "disk": {"this folder": {"path": "/home", "free": 50 << 30}},
    "cache": {"path": "/home/.cache/regard/kernels", "bytes": 9},
}


def test_a_quiet_machine_has_no_remarks():
    assert remarks(QUIET) == []


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({"share": 0.21, "load": 13.8}, "busy (load 13.8 on 8): a thread of this program got 21%"),
        ({"load": 12.0}, "other programs are busy"),
        ({"quota": 1.5}, "may use 1.5 processors, and PyTorch starts 8 threads"),
        ({"quota": 0.5, "threads": 2}, "OMP_NUM_THREADS=1"),
        ({"allowed": 2}, "8 threads on 2 processors"),
        ({"threads": 1, "environment": QUIET["environment"] | {"OMP_NUM_THREADS": "1"}}, "1 of 8 processors"),
        (
            {"environment": QUIET["environment"] | {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": None}},
            "occupy their cores",
        ),
        ({"environment": QUIET["environment"] | {"GOMP_SPINCOUNT": "30000000000"}}, "occupy their cores"),
        ({"precision": {"auto": "float32"}}, "cannot multiply bfloat16"),
        ({"built_for_gpus": True}, "and there is none"),
        ({"kernels": QUIET["kernels"] | {"state": "none", "why": "g++ has not ended"}}, "bfloat16: g++ has not ended"),
        ({"kernels": QUIET["kernels"] | {"state": "to be built"}}, "not built yet"),
        ({"kernels": QUIET["kernels"] | {"variant": "plain"}}, "neither AVX2 nor"),
        ({"kernels": QUIET["kernels"] | {"compiler": None}}, "training.compile has no effect"),
        ({"memory": QUIET["memory"] | {"limit": 512 << 20}}, "0.5 GiB of memory"),
        ({"disk": {"this folder": {"path": "/home", "free": 20 << 20}}}, "20 MiB are free for this folder"),
        ({"cache": {"path": None, "bytes": 0}}, "no cache folder of this user alone"),
    ],
)
def test_each_thing_that_is_amiss_is_one_sentence(differs, said):
    (found,) = remarks(QUIET | differs)
    assert said in found


def test_what_a_container_may_use_is_read_of_either_version_of_control_groups(tmp_path):
    assert quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert quota(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert quota(tmp_path) == 1.5
    old = tmp_path / "old"
    (old / "cpu").mkdir(parents=True)
    (old / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    for given, wanted in (("-1\n", None), ("50000\n", 0.5), ("torn", None)):
        (old / "cpu" / "cpu.cfs_quota_us").write_text(given)
        assert quota(old) == wanted


def test_extras_are_those_of_the_packages_metadata():
    given = [
        "torch>=2",
        'numpy>=1; extra == "plot"',
        "no-such-thing[x]>=2 ; python_version < '4' and extra == 'plot'",
        "regard[plot]; extra == 'all'",
    ]
    assert extras(given).keys() == {"plot"}
    assert extras(given)["plot"]["no-such-thing"] is None
    assert extras(given)["plot"]["numpy"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what Linux says")
def test_nothing_is_built_and_a_compiler_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(variants, "SHIPPED", tmp_path)  # as if the wheel had brought none
    if shutil.which("g++"):
        assert machine.kernels()["state"] == "to be built"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    found = machine.kernels()
    assert (found["state"], found["compiler"]) == ("none", None)
    assert "no C++ compiler" in found["why"]
    assert [path.name for path in (tmp_path / "cache" / "regard" / "kernels").iterdir()] == []


def test_a_share_of_a_processor_is_between_none_and_all():
    assert 0 < machine.share(0.02) <= 1


def test_what_is_found_is_this_machine(capsys):
    found = examine()
    assert found["versions"]["regard"] == regard.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["processors"] == os.cpu_count()
    assert found["precision"]["auto"] in found["precision"]["reason"]
    assert all(speed > 0 for speed in found["speed"].values())
    assert json.loads(json.dumps(found)) == found
    assert isinstance(remarks(found), list)
