"""`benchmarks/faults/growth.py` with few of each use, and what it says of a use that keeps memory, files and threads."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

GROWTH = Path(__file__).parents[2] / "benchmarks" / "faults" / "growth.py"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").is_file(), reason="memory is watched by what Linux tells of processes"
)


@pytest.mark.slow
def test_a_few_uses_leave_memory_files_and_threads_as_they_are(python, tmp_path):
    counts = ["--predictions", "140", "--looks", "70", "--loads", "14", "--threads", "20"]
    output = tmp_path / "growth.json"
    done = subprocess.run(
        [*python, str(GROWTH), *counts, "--output", str(output)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(output.read_text())["figures"]
    for what in ("predictions", "looks", "loads"):
        assert figures[what]["grown, %"] <= 2
        assert figures[what]["files more"] <= 0
        assert figures[what]["threads more"] <= 0
    assert figures["looks at once"]["that saw other weights than alone"] == {"bahdanau": 0, "classifier": 0, "gpt2": 0}


@pytest.mark.slow
def test_what_is_kept_is_seen(python):
    script = """
import gc, sys, threading, time
sys.path.insert(0, sys.argv[1])
import growth
kept = []
gc.freeze()
def keep():
    kept.append((b"x" * 2**20, open(sys.argv[0])))
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(growth.watched(40, 5, keep))
"""
    place = Path(GROWTH.parent)
    file = place / "growth.py"
    done = subprocess.run(
        [*python, "-c", script.replace("sys.argv[0]", repr(str(file))), str(place)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = ast.literal_eval(done.stdout)
    assert figures["grown, %"] > 2
    assert figures["grown, KiB each time"] > 500  # of 1,024: what the interpreter gives back meanwhile is subtracted
    assert (figures["files more"], figures["threads more"]) == (40, 40)
