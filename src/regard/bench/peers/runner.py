"""The process of one contestant: `python runner.py DRIVER.py`, controlled by lines of JSON.

A driver is a file with `KINDS`, classes by kind of job, each with

    available()     whether its library is installed here, without importing it
    versions()      of the library and of others that determine its speed
    prepare(job)    everything that is not timed; returns `note`, a sentence for the reader, or `left_out`, the reason why this
                    machine or this release does not support the setting
    by_torch        whether PyTorch computes: then nothing is prepared in bfloat16 where PyTorch has no products in it, which
                    would take minutes; it may be left out
    run()           the timed work; returns `amount`, `seconds`, and optionally `answers` and `measures`, further figures by name;
                    a job with `times` has it done so many times in a turn

On `weigh`, it runs once more, untimed, after freed memory was returned to the system, and returns the measures of that run and
the peak memory of the process during it above what it held before.

This file, the drivers of peers and what they share (`shared.py`) import nothing of Regard, so that they run in any interpreter.
One line of JSON comes back for each that is sent: `{"do": "hello", "kind": ...}`, `{"do": "prepare", "job": {...}}`,
`{"do": "run"}`, `{"do": "weigh"}`. The end of the input ends the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import sys
import traceback
import types
from typing import Any


def main() -> None:
    """Answer requests until the input ends."""
    here = os.path.dirname(os.path.abspath(__file__))
    # A script's folder comes before the libraries: `import ctranslate2` would find the driver of that name.
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or os.curdir) != here]
    # Libraries' output goes to standard error; standard output has only the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    kinds = _kinds(sys.argv[1])
    contestant, times = None, 1
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "hello":
                contestant = kinds[request["kind"]]()
                there = contestant.available()
                found = {"available": there, "versions": contestant.versions() if there else {}}
            elif contestant is None:
                raise RuntimeError("hello must come first")
            else:
                if request["do"] == "prepare":
                    times = request["job"].get("times", 1)
                    found = without_products(contestant, request["job"]) or contestant.prepare(request["job"])
                elif request["do"] == "run":
                    found = _several(contestant, times)
                else:
                    found = _weighed(contestant)
        except Exception as error:
            traceback.print_exc()  # all of it, on standard error
            message = " ".join(str(error).split())[:500]
            found = {"failed": f"{type(error).__name__}: {message}" if message else type(error).__name__}
        _give_back_freed_memory()  # the next contestants need the memory
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def without_products(contestant: Any, job: dict[str, Any]) -> dict[str, str] | None:
    """Why a job in bfloat16 is left out where PyTorch computes and has no products in it; None where it is not."""
    if job.get("precision") != "bfloat16" or not getattr(contestant, "by_torch", False):
        return None
    import torch

    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return None
    return {"left_out": "PyTorch has no products in bfloat16 on this processor: float32 is several times as fast"}


def _several(contestant: Any, times: int) -> dict[str, Any]:
    runs = [contestant.run() for _ in range(times)]
    return runs[-1] | {name: sum(run[name] for run in runs) for name in ("amount", "seconds")}


def _weighed(contestant: Any) -> dict[str, Any]:
    before = _forget_peak()
    measures = contestant.run().get("measures", {})
    peak = _resident("VmHWM")
    if before is not None and peak is not None:
        measures["peak memory, MB"] = peak - before
    return {"measures": measures}


def _forget_peak() -> float | None:
    """Reset the peak memory; returns the memory held now in MB, or None where the system does not report it."""
    _give_back_freed_memory()
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _give_back_freed_memory() -> None:
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _resident(name: str) -> float | None:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1]) / 1e3
    except OSError:
        pass
    return None


def _kinds(path: str) -> dict[str, Any]:
    # In a package that is its folder, so that it finds what drivers share beside it, in `shared.py`.
    package = types.ModuleType("drivers")
    package.__path__ = [os.path.dirname(os.path.abspath(path))]
    sys.modules["drivers"] = package
    name = "drivers." + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.KINDS


if __name__ == "__main__":
    main()
