"""Whether lm-evaluation-harness finds over HTTP what the same model gives in this process.

    pip install 'lm_eval[api]==0.4.13'
    python benchmarks/serving_lm_eval.py [MODEL] [--items 100]

The harness asks `regard serve` by its own model `local-completions`, unchanged, and then the model itself, loaded here, whose
log-probabilities are those of `LanguageModel.score_batch`. Two small tasks are made of sentences of Python's reference, so that
nothing is downloaded: to choose the second half of a sentence among four, and to tell the last word. MODEL is the folder of a
language model whose tokenizer transformers opens; a small one is trained where none is given, since only agreement is measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from lm_eval import simple_evaluate
from lm_eval.api.model import TemplateLM
from lm_eval.tasks import TaskManager

import regard
from measured import record
from regard.bench.encoder import sentences
from serving_load import SEED, regard_server

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TASKS = {
    "halves": """
task: halves
output_type: multiple_choice
doc_to_text: "{{first}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{right}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "last_words": """
task: last_words
output_type: loglikelihood
doc_to_text: "{{all_but_last}}"
doc_to_target: " {{last}}"
metric_list: [{metric: perplexity}, {metric: acc}]
""",
}
DATA = """
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
target_delimiter: " "
"""


class InProcess(TemplateLM):
    """The model without a server, as the harness asks for log-probabilities.

    Arguments:
        folder: of the model.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.predictor = regard.load(folder)
        self.tokenizer = self.predictor.task.tokenizer

    @property
    def eot_token_id(self) -> int:
        """What ends a text."""
        return self.tokenizer.end_id

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **more: Any) -> list[int]:
        """The tokens of a text."""
        return self.tokenizer.encode(string)

    def _loglikelihood_tokens(self, requests: Sequence[Any], **more: Any) -> list[tuple[float, bool]]:
        found = self.predictor.score_batch([before + after for (before, after), _, _ in requests])
        answers = []
        for score, (_, before, after) in zip(found, requests, strict=True):
            own = slice(len(before), len(before) + len(after))
            answers.append((sum(score.log_probabilities[own]), all(score.right[own])))
        return answers

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Not asked for by these tasks."""
        raise NotImplementedError

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Not asked for by these tasks."""
        raise NotImplementedError


def made_tasks(folder: Path, items: int) -> TaskManager:
    """The two tasks, in a folder of their own."""
    draw = random.Random(SEED)
    texts: list[list[str]] = []
    for text in sentences():
        words = text.split()
        if 8 <= len(words) <= 16 and len(text) < 90:
            texts.append(words)
        if len(texts) == items:
            break
    rows = []
    for number, words in enumerate(texts):
        half = len(words) // 2
        others = draw.sample([each for place, each in enumerate(texts) if place != number], 3)
        choices = [words[half:], *(each[len(each) // 2 :] for each in others)]
        order = draw.sample(range(4), 4)
        row = {"first": " ".join(words[:half]), "choices": [" ".join(choices[place]) for place in order]}
        rows.append(row | {"right": order.index(0), "all_but_last": " ".join(words[:-1]), "last": words[-1]})
    data = folder / "items.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, task in TASKS.items():
        (folder / f"{name}.yaml").write_text(task + DATA.replace("FILE", str(data)), encoding="utf-8")
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluated(model: Any, tasks: TaskManager, **settings: Any) -> dict[str, Any]:
    """What the harness finds: metrics, and each sample's log-probabilities."""
    found = simple_evaluate(model, tasks=list(TASKS), task_manager=tasks, bootstrap_iters=0, **settings)
    made: dict[str, Any] = {"samples": []}
    for name in TASKS:
        for metric, value in found["results"][name].items():
            if isinstance(value, float) and "stderr" not in metric:
                made[f"{name}, {metric.partition(',')[0]}"] = value
        for sample in sorted(found["samples"][name], key=lambda sample: sample["doc_id"]):
            made["samples"] += [
                answer[0] if isinstance(answer, tuple | list) else answer for answer in sample["filtered_resps"]
            ]
    return made


def trained(folder: Path) -> Path:
    """A small GPT that has read some sentences, so that its figures are no chance."""
    sizes = {"width": 64, "heads": 4, "feedforward_width": 256, "layers": 2, "maximum_positions": 256}
    values = {
        "task": "language_modelling",
        "seed": SEED,
        "model": {"name": "gpt2", **sizes},
        "data": {"length": 64},
        "tokenizer": {"kind": "byte_bpe", "size": 1000},
        "training": {"steps": 300, "batch_tokens": 2000, "precision": "float32", "learning_rate": 3e-3, "warmup": 20},
    }
    regard.train(values, output=folder / "model", data=list(itertools.islice(sentences(), 3000)))
    return folder / "model"


def main() -> None:
    """Evaluate both ways and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="a few items; nothing is recorded")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["HF_DATASETS_CACHE"] = f"{place}/cache"
        folder = given.model or trained(Path(place))
        (Path(place) / "tasks").mkdir()
        tasks = made_tasks(Path(place) / "tasks", 10 if given.quick else given.items)
        here = evaluated(InProcess(folder), tasks)
        with regard_server([f"model={folder}"], "--threads", "1") as server:
            words = {
                "model": "model",
                "base_url": f"http://127.0.0.1:{server.port}/v1/completions",
                "tokenizer": str(folder),
                "tokenizer_backend": "huggingface",
                "tokenized_requests": False,  # texts are read behind the end token, as score_batch reads them; ids are not
                "num_concurrent": 4,
            }
            there = evaluated("local-completions", tasks, model_args=words)
    one, other = here.pop("samples"), there.pop("samples")
    figures = {
        "log-probabilities compared": len(one),
        "of them, largest difference": max(abs(a - b) for a, b in zip(one, other, strict=True)),
        **{f"{name}, over HTTP": value for name, value in there.items()},
        **{f"{name}, in this process": value for name, value in here.items()},
        "largest difference of a metric, of its size where that is above 1": max(
            abs(here[name] - there[name]) / max(1.0, abs(here[name])) for name in here
        ),
    }
    if given.quick:
        print(json.dumps(figures, indent=2))
        return
    record(
        RESULTS / "serving-lm-eval.json",
        title="lm-evaluation-harness over HTTP, compared with the model in the harness's own process",
        target="every metric the same to 1e-6, of its size where that is above 1",
        command=f"python benchmarks/serving_lm_eval.py{f' MODEL --items {given.items}' if given.model else ''}",
        precision="float32",
        seed=SEED,
        figures=figures,
        note=f"lm_eval {metadata.version('lm_eval')}, its model local-completions, unchanged. "
        + (
            ""
            if given.model
            else "The model read 3,000 sentences in 300 steps and knows little; what counts is that both say the same."
        ),
    )


if __name__ == "__main__":
    main()
