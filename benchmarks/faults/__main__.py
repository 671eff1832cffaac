"""Puts faults into folders, command lines and recipes, and judges how each case ends.

    nice -n 10 python benchmarks/faults
    python benchmarks/faults --only model:1234
    python benchmarks/faults --kinds vectors index --count 200 --output faults.json

A case is one damaged folder of a model, a run, word vectors or a search index and what a user would do with it; or one
command line; or one recipe, trained to its first update. It may end with an answer or with one clear sentence (`InputError`;
on the command line exit code 2). Anything else is a fault: another exception, a signal, more than 2 seconds of the processor
or 1 GB of memory beyond what the imports take, waiting for something that never comes, a message too long to read, and
anything written outside the folder. Each case is a process forked from this one, which has imported everything; it hangs on
the seed, its kind and its number alone, so `--only` repeats it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
sys.path[:0] = [str(HERE.parent), str(HERE)]

import judging  # noqa: E402
from cases import NAMES, Faults, run  # noqa: E402

from measured import record  # noqa: E402

COUNTS = {"model": 5000, "run": 2000, "vectors": 2000, "index": 1000, "command": 5000, "recipe": 500}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "faults.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=COUNTS, default=list(COUNTS))
    parser.add_argument("--count", type=int, help="cases of each kind; as many as in the published run where not given")
    parser.add_argument(
        "--only", metavar="KIND:NUMBER", help="repeat one case and say how it ended; its folder is kept"
    )
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        faults = Faults(Path(place), arguments.seed, NAMES)
        faults.warm()
        if arguments.only:
            kind, _, number = arguments.only.partition(":")
            judging.until_started()
            what, outcome = faults.case(kind, int(number))
            kept = Path(tempfile.gettempdir()).parent
            print(f"{what}\n{outcome}\n{(kept / 'err').read_text(errors='replace')[-3000:]}")
            shutil.copytree(kept, Path.cwd() / f"fault-{kind}-{number}", symlinks=True, ignore=_pipes)
            return
        counts = {kind: arguments.count or COUNTS[kind] for kind in arguments.kinds}
        figures, wrong = run(faults, counts, lambda sentence: print(sentence, flush=True))
    summary = {
        "cases": sum(counts.values()),
        "ended otherwise than with an answer, one sentence, or the first update": len(wrong),
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }
    record(
        arguments.output,
        title="Damaged folders, random command lines and recipes",
        command="python benchmarks/faults",
        precision="float32",
        seed=arguments.seed,
        target="10,000 mutated model, run, vector and index folders, 5,000 command lines, 500 recipes: only clear errors, at "
        "most 2 s and 1 GB each",
        figures=summary | figures | ({"cases that ended otherwise": wrong} if wrong else {}),
        threads=1,
        note="A case is repeated by --only KIND:NUMBER with the same seed. Seconds are the processor's; memory is what a case "
        "held beyond the process it was forked from.",
    )
    if wrong:
        raise SystemExit(f"{len(wrong)} cases ended as none may")


def _pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())]


if __name__ == "__main__":
    main()
