"""Damaged files led by coverage: libFuzzer keeps what reaches new lines of the package, and damages that further.

    pip install atheris
    python benchmarks/faults/guided.py tables 17 --runs 100000

Atheris instruments the package as it is imported. A sample (`loading.KINDS`, by its number) is read once for each input that
libFuzzer makes of its damaged file. What ends otherwise than with an answer or an `InputError`, or takes longer than two
seconds, is written to the folder `--found`, and reported, once for each place. The corpus is kept there too and used again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
sys.path[:0] = [str(HERE.parent), str(HERE)]

with atheris.instrument_imports(include=["regard"]):
    import judging
    from loading import KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("sample", type=int, nargs="?", default=0)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--found", type=Path, default=Path(tempfile.gettempdir()) / "regard-guided")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp())
    sample = list(KINDS[arguments.kind][1](place / "valid"))[arguments.sample]
    path = next(sample.folder.glob(sample.damaged[0]))
    corpus = arguments.found / f"{arguments.kind.replace(' ', '-')}-{arguments.sample}"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "valid").write_bytes(path.read_bytes())
    reported: set[str] = set()

    def once(content: bytes) -> None:
        path.write_bytes(content)
        begun = time.process_time()
        end, detail = judging.ended(lambda: sample.read(sample.folder))
        if end in judging.ALLOWED and time.process_time() - begun > judging.SECONDS:
            end = "slow"
        if end not in judging.ALLOWED:
            where = f"{end} {detail.split(':')[0]} {detail.rpartition(' at ')[2]}"
            if where not in reported:
                reported.add(where)
                name = corpus.with_name(f"{corpus.name}.{hashlib.sha256(content).hexdigest()[:12]}")
                name.write_bytes(content)
                print(f"{name}: {end}: {detail[:400]}", flush=True)

    options = [
        f"-runs={arguments.runs}",
        f"-max_total_time={round(60 * arguments.minutes)}",
        "-rss_limit_mb=3000",
        "-verbosity=0",
    ]
    options.append(f"-max_len={max(4096, 2 * path.stat().st_size)}")
    atheris.Setup([sys.argv[0], str(corpus), "-print_final_stats=1", *options], once)
    atheris.Fuzz()  # which ends the process


if __name__ == "__main__":
    main()
