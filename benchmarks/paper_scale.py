"""What the papers' own sizes would cost for four claims that were tested at a smaller one, by `regard plan`.

python benchmarks/paper_scale.py

Nothing is trained. Each row has the paper's setting, the command that trains it on the user's data, and the operations of one
training. The hours are those of one H100 at 30 % of its peak: a lower bound, because loops over time steps and models this
small do not reach that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from measured import record

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "h100-80"
NOT_RUN = "not run: needs a GPU"

REFORMER = (
    "model.feedforward_width=256 model.layers=[lsh] model.dropout=0 data.train=null data.validation=null "
    "data.repeats.symbols=127 data.repeats.length=511 data.length=1024 tokenizer.kind=word tokenizer.size=130 "
    "training.batch_tokens=32768 training.steps=150000 training.epochs=null model.maximum_positions=1024 "
    "model.axial_shape=[32,32]"
)

ROWS: tuple[dict[str, Any], ...] = (
    {
        "claim": "2.4, more-hashes",
        "setting": "table 2: 1,024 symbols, one layer of width 256, 150,000 updates; batch not stated, assumed: 32 texts",
        "plan": f"recipes/reformer.yaml model.rounds=4 {REFORMER}",
        "train": f"regard compare recipes/reformer.yaml model.rounds=1,2,4 {REFORMER}",
        "trainings": 3,
    },
    {
        "claim": "4.4, max-pooling",
        "setting": "SNLI, 549,367 pairs of 22.4 words on average, BiLSTM of 2 x 2,048; passes not stated, assumed: 10",
        "plan": "recipes/infersent-snli.yaml model.hidden_width=2048 --tokens 1.23e8",
        "train": "regard compare recipes/infersent-snli.yaml model.hidden_width=2048 model.pooling=max,mean,last "
        "data.train=snli_1.0_train.txt data.validation=snli_1.0_dev.txt training.epochs=10",
        "trainings": 3,
    },
    {
        "claim": "1.8, two-level-attention",
        "setting": "Yelp 2015, four fifths of 1,569,264 reviews of 152 words on average; passes not stated, assumed: 5",
        "plan": "recipes/han-imdb.yaml --tokens 9.54e8",
        "train": "regard compare recipes/han-imdb.yaml model.gathering=attention,average,maximum data.train=yelp-2015.tsv "
        "training.epochs=5",
        "trainings": 3,
    },
    {
        "claim": "2.2, interleaved-attention",
        "setting": "Omniglot, 1,200 characters turned by quarters; the updates are not stated",
        "plan": None,
        "train": "regard claims run interleaved-attention --on images_background.zip",
        "trainings": 15,
    },
)


def planned(row: dict[str, Any]) -> dict[str, Any]:
    """The row's figures: operations and device hours of all its trainings, from `regard plan`."""
    figures = {
        "the paper's setting": row["setting"],
        "trainings for one seed": row["trainings"],
        "command": f"`{row['train']}`",
        "state": NOT_RUN,
    }
    if row["plan"] is None:
        return figures | {
            "cost": "`regard plan` counts tokens of texts, and this task reads images: time 100 updates instead"
        }
    command = [sys.executable, "-m", "regard", "plan", *row["plan"].split(), "--device", DEVICE, "--no-read", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return figures | {
        "plan": f"`regard plan {row['plan']} --device {DEVICE}`",
        "parameters": found["parameters"]["total"],
        "tokens": found["tokens"],
        "operations of one training": found["operations"]["training"],
        "H100 hours of one training, at least": round(found["cost"]["device_hours"], 4),
    }


def main() -> None:
    record(
        ROOT / "docs" / "results" / "paper-size.json",
        title="Four claims at the papers' own size: not run, and what they would cost",
        target="the command, the cost by `regard plan`, and the state, where no GPU is at hand",
        command="python benchmarks/paper_scale.py",
        precision="bfloat16, planned",
        seed=None,
        figures={f"{row['claim']}: {name}": value for row in ROWS for name, value in planned(row).items()},
        note="Hours at 30 % of the peak of one H100: a lower bound, because loops over time steps and models this small "
        "do not reach that.",
    )


if __name__ == "__main__":
    main()
