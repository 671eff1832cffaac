"""How fast GloVe's counts are made and learnt, and in how much memory.

python benchmarks/glove.py TEXT [--memory 64,1024] [--threads 2]
python benchmarks/glove.py TEXT --memory 16 --times 32 --name glove-large-text

TEXT is tokenised as WikiText-2 is, a paragraph in each line, perhaps gzip. For each memory setting a process of its own counts
and trains; its peak is that of the process less what it held before. With --times the text is read so often over, as
one text: to see that a text far larger than the memory setting is counted within it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from measured import record
from regard.word_embeddings.training import VectorSettings, sentences, train_vectors

ROOT = Path(__file__).resolve().parent.parent
EPOCHS = 5


def peak() -> float:
    """Of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(text: Path, memory: int, threads: int, times: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    corpus = sentences([text] * times, tokenisation="whitespace", cleaning="wikitext")
    settings = VectorSettings(method="glove", width=50, window=10, epochs=EPOCHS, largest_count=10.0, memory=memory)
    before = peak()
    vectors = train_vectors(corpus, settings)
    said = vectors.metadata
    return {
        "words": len(vectors),
        "words of text": said["text"]["words"],
        "counts": said["counts"],
        "words counted a second": said["words_per_second"],
        "counts learnt a second": said["counts_per_second"],
        "MiB more than before": round(peak() - before),
        "cost": round(said["cost"], 4),
    }


def _bytes(text: Path) -> int:
    """Of a text, unpacked."""
    with (gzip.open if text.suffix == ".gz" else open)(text, "rb") as file:
        return sum(map(len, file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--memory", default="64,1024")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=1, help="how often the text is read over, as one text")
    parser.add_argument("--name", default="glove", help="of the record")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(one(arguments.text, arguments.one, arguments.threads, arguments.times)))
        return
    torch.set_num_threads(arguments.threads)
    figures: dict[str, Any] = {}
    large = arguments.times > 1
    for memory in arguments.memory.split(","):
        command = [sys.executable, __file__, str(arguments.text), "--one", memory, "--threads", str(arguments.threads)]
        command += ["--times", str(arguments.times)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        if large:
            found["bytes of text over memory"] = round(
                _bytes(arguments.text) * arguments.times / 2**20 / int(memory), 1
            )
        figures[f"memory {memory} MiB"] = found
    record(
        ROOT / "docs" / "results" / f"{arguments.name}.json",
        title="GloVe: counting and learning" + (", of a text far larger than memory" if large else ""),
        command="python benchmarks/glove.py wiki.train.tokens"
        + (
            f" --memory {arguments.memory} --times {arguments.times} --name {arguments.name}"
            if arguments.times > 1
            else ""
        ),
        precision="float32",
        seed=1,
        target="words per second; memory bounded by a setting",
        figures=figures,
        note=f"WikiText-2, window 10, width 50, words seen five times or more, {EPOCHS} passes. The setting bounds what counting "
        "holds; the tables, the text's vocabulary and the pages of the file of counts come on top."
        + (f" The text is read {arguments.times} times over, as one text." if arguments.times > 1 else ""),
    )


if __name__ == "__main__":
    main()
