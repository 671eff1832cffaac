"""A million damaged files, read by the package's loaders one after another: only an answer or one clear sentence may come.

    nice -n 10 python benchmarks/faults/loaders.py
    python benchmarks/faults/loaders.py --minutes 30
    python benchmarks/faults/loaders.py --only gguf:1234
    python benchmarks/faults/loaders.py --again

A case is a valid file of one kind (`loading.KINDS`) with one to three faults, read by the function that reads such files. It may
end with what was read, or with an `InputError`; within 2 seconds of the processor and 1 GB of memory. Anything else is a fault,
also a signal or waiting for something that never comes. Many cases run in one process, which is forked anew where one ends it;
each hangs on the seed, its kind and its number alone, so `--only` repeats it. What was done is kept in the file `--progress`
after every two thousand, and the same command goes on from there. `--again` repeats those that ended wrongly, once mended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
sys.path[:0] = [str(HERE.parent), str(HERE)]

import judging  # noqa: E402
from batches import TOGETHER, Cases, Figures, checked  # noqa: E402
from cases import import_all  # noqa: E402
from loading import KINDS  # noqa: E402

from measured import record  # noqa: E402

PROGRESS = Path(tempfile.gettempdir()) / "regard-loaders.json"
TEMPORARY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

ELSEWHERE = re.compile(r"/\S*/(?:site-packages|python3\.\d+|scratch/work)/")
"""The folders of a machine, which are left out of what is recorded."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "faults-loaders.json")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="where what was done is kept (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--count", type=int, default=sum(share for share, _ in KINDS.values()), help="cases in all")
    parser.add_argument("--minutes", type=float, help="stop then, to be gone on with")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="repeat one case and say how it ended")
    parser.add_argument(
        "--again", action="store_true", help="repeat the cases that ended wrongly, and count those that do still"
    )
    arguments = parser.parse_args()
    kinds = [arguments.only.partition(":")[0]] if arguments.only else arguments.kinds
    found = _progress(arguments.progress, arguments.seed)
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as place:
        os.environ["MPLCONFIGDIR"] = str(Path(place) / "matplotlib")
        import_all()
        samples = {kind: list(KINDS[kind][1](Path(place) / "valid" / kind.replace(" ", "-"))) for kind in kinds}
        checked(samples, lambda _: None)
        cases = Cases(Path(place), arguments.seed, samples)
        if arguments.only:
            figures = Figures()
            cases.batch(kinds[0], int(arguments.only.partition(":")[2]), 1, figures)
            print(json.dumps(figures.wrong or dict(figures.ends), indent=2))
            return
        if arguments.again:
            _again(cases, found, kinds)
        else:
            _on(cases, found, kinds, arguments)
        _keep(arguments.progress, arguments.seed, found)
    _record(arguments, found)


def _on(cases: Cases, found: dict[str, Figures], kinds: list[str], arguments: argparse.Namespace) -> None:
    """Go on, the kinds in turn so that each has its share at any time."""
    judging.gc.collect()
    judging.gc.freeze()
    shares = {kind: KINDS[kind][0] for kind in kinds}
    wanted = {kind: round(arguments.count * share / sum(shares.values())) for kind, share in shares.items()}
    begun = said = time.monotonic()
    while left := {kind: found[kind].done / count for kind, count in wanted.items() if found[kind].done < count}:
        if arguments.minutes and time.monotonic() - begun > 60 * arguments.minutes:
            break
        kind = min(left, key=lambda kind: left[kind])
        figures, wrong = found[kind], len(found[kind].wrong)
        cases.batch(kind, figures.done, min(TOGETHER, wanted[kind] - figures.done), figures)
        for each in figures.wrong[wrong:]:
            print(f"{each['case']} {each['ended']}: {each['where'][:300]} | {each.get('did', '')}", flush=True)
        _keep(arguments.progress, arguments.seed, found)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(
                f"{sum(each.done for each in found.values()):,} cases after {(said - begun) / 60:.0f} minutes",
                flush=True,
            )


def _again(cases: Cases, found: dict[str, Figures], kinds: list[str]) -> None:
    """Repeat what ended wrongly, and note of each how it ends now."""
    for kind in kinds:
        for each in found[kind].wrong:
            now = Figures()
            cases.batch(kind, int(each["case"].partition(":")[2]), 1, now)
            each["now"] = now.wrong[0]["ended"] if now.wrong else next(iter(now.ends))
            if now.wrong:
                print(f"{each['case']} still {each['now']}: {now.wrong[0]['where'][:300]}", flush=True)


def _progress(path: Path, seed: int) -> dict[str, Figures]:
    found = {kind: Figures() for kind in KINDS}
    if path.is_file():
        kept = json.loads(path.read_text())
        if kept["seed"] != seed:
            raise SystemExit(f"{path} is of the seed {kept['seed']}; name another file with --progress")
        for kind, each in kept["kinds"].items():
            found[kind] = Figures(Counter(each["ends"]), each["slowest"], each["largest"], each["wrong"])
    return found


def _keep(path: Path, seed: int, found: dict[str, Figures]) -> None:
    kinds = {
        kind: {"ends": each.ends, "slowest": each.slowest, "largest": each.largest, "wrong": each.wrong}
        for kind, each in found.items()
    }
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps({"seed": seed, "kinds": kinds}))
    temporary.replace(path)


def _record(arguments: argparse.Namespace, found: dict[str, Figures]) -> None:
    wrong = [each for figures in found.values() for each in figures.wrong]
    places = Counter(
        f"{each['ended']} {ELSEWHERE.sub('', each['where'].rpartition(' at ')[2])[:120]}" for each in wrong
    )
    kinds: dict[str, Any] = {
        kind: {
            "cases": each.done,
            "answer": each.ends["answer"],
            "refused": each.ends["refused"],
            "otherwise": each.ends["otherwise"],
            "slowest, processor seconds": round(each.slowest, 2),
            "largest, MB": round(each.largest / 1e6),
        }
        for kind, each in found.items()
        if each.done
    }
    again = [each["now"] for each in wrong if "now" in each]
    record(
        arguments.output,
        title="A million damaged files, read by every loader",
        command="python benchmarks/faults/loaders.py",
        precision="float32",
        seed=arguments.seed,
        target="1,000,000 mutated inputs over the loaders: only clear errors, at most 2 s and 1 GB each",
        figures={
            "cases": sum(each.done for each in found.values()),
            "ended otherwise than with an answer or one sentence, when first met": len(wrong),
            "of these repeated after the repairs": len(again),
            "still ending so": sum(now not in judging.ALLOWED for now in again),
            **kinds,
            **({"where these were": dict(places.most_common(40))} if places else {}),
        },
        threads=1,
        note="The loaders were mended while the cases ran: a case is counted as it ended when it was first met, and what ended "
        "wrongly was repeated at the end. --only KIND:NUMBER with the same seed repeats one. Seconds are the processor's; memory "
        "is what a process of two thousand cases held at most beyond its beginning.",
    )


if __name__ == "__main__":
    main()
