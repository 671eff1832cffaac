"""The loop against a naive twin, and its bookkeeping: evaluations, early stopping, the log."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import regard
from regard.checkpoints import read_parameters
from regard.data.batching import Batches
from regard.data.token_store import TokenStore
from regard.layers import Tokens
from regard.models import MODELS
from regard.tasks import TranslationTask, Translator
from regard.training import read_recipe, run
from regard.training.validation import evaluation_loss

BOTH = pytest.mark.parametrize("model", ["bahdanau", "transformer"])


def lines(folder: Path, event: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in read if line["event"] == event]


def naive_twin(folder: Path, values: dict[str, Any]) -> tuple[dict[str, torch.Tensor], list[float], list[float]]:
    """The same training written the plain way: every window as one padded batch, torch's own loss and a mean."""
    recipe = read_recipe(values)
    settings = recipe.training
    task = TranslationTask.load(folder / "data", {"shared": recipe.tokenizer.shared})
    store = TokenStore.open(folder / "data" / "train")
    torch.manual_seed(recipe.seed)
    family = MODELS[recipe.model["name"]]
    model = family.model(recipe.model_config(task.model_settings())).train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        betas=settings.betas,
        eps=settings.epsilon,
    )
    lengths = np.stack([store.lengths(column) + 1 for column in ("source", "target")], axis=1)
    batches = Batches(lengths, maximum_tokens=settings.batch_tokens, seed=recipe.seed)
    losses: list[float] = []
    norms: list[float] = []
    epoch = 0
    while len(losses) < settings.steps:
        order = batches.epoch(epoch)
        for start in range(0, len(order), settings.accumulate):
            if len(losses) == settings.steps:
                break
            rows = np.concatenate(order[start : start + settings.accumulate])
            sources = [[*store.sequence("source", row), task.source_tokenizer.end_id] for row in rows]
            targets = [list(store.sequence("target", row)) for row in rows]
            source = Tokens.pad(sources)
            target = Tokens.pad([[task.target_tokenizer.start_id, *ids] for ids in targets])
            labels = Tokens.pad([[*ids, task.target_tokenizer.end_id] for ids in targets])
            logits = model(source, target)[labels.valid]
            others = torch.arange(logits.shape[1]) != task.target_tokenizer.padding_id  # padding is never right
            target = (1 - settings.label_smoothing) * F.one_hot(labels.ids[labels.valid], logits.shape[1])
            target = target + settings.label_smoothing * others / others.sum()
            loss = F.cross_entropy(logits, target)
            loss.backward()
            if settings.clip_norm is not None:
                total = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
                norms.append(total)
                for parameter in model.parameters():
                    parameter.grad.mul_(min(1.0, settings.clip_norm / (total + 1e-6)))
            step = len(losses) + 1
            # The default schedule, equation 3 of the paper up to its peak.
            rate = settings.learning_rate * min(step / settings.warmup, math.sqrt(settings.warmup / step))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        epoch += 1
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, losses, norms


@BOTH
@pytest.mark.parametrize(
    "training",
    [
        {"accumulate": 1, "clip_norm": None},
        {"accumulate": 4, "clip_norm": None},
        {"accumulate": 5, "clip_norm": 0.2, "label_smoothing": 0.2, "weight_decay": 0.1},
    ],
    ids=["plain", "accumulated", "all at once"],
)
def test_training_equals_its_naive_twin(model, training, recipe, pairs, tmp_path):
    """Accumulation equals one large batch, the last and shorter window of an epoch included; so do clipping and smoothing."""
    # An epsilon well above rounding keeps Adam from blowing up differences in gradients that are all but zero.
    values = recipe(model, steps=9, epsilon=1e-4, batch_tokens=260, **training)
    values["model"] |= {"dropout": 0.0} | ({"attention_dropout": 0.0} if model == "transformer" else {})
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    windows = len(Batches(_lengths(trained.folder), maximum_tokens=260, seed=5).epoch(0)) / training["accumulate"]
    assert windows < 9, "the run must reach a second epoch"
    assert training["accumulate"] == 1 or windows != int(windows), "the last window must be a shorter one"

    parameters, losses, norms = naive_twin(trained.folder, values)
    logged = [line["loss"] for line in lines(trained.folder, "train")]
    torch.testing.assert_close(logged, losses, rtol=2e-5, atol=2e-5)
    told = [line["gradient_norm"] for line in lines(trained.folder, "train") if "gradient_norm" in line]
    torch.testing.assert_close(told, norms, rtol=1e-3, atol=1e-5)
    clipped = [line["clipped"] for line in lines(trained.folder, "train") if "clipped" in line]
    assert clipped == [norm > training["clip_norm"] for norm in norms]
    _, ours = read_parameters(trained.folder / "checkpoints" / "step-00000009")
    assert ours.keys() == parameters.keys()
    for name, expected in parameters.items():
        torch.testing.assert_close(
            ours[name], expected, rtol=1e-3, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def _lengths(folder: Path) -> np.ndarray:
    store = TokenStore.open(folder / "data" / "train")
    return np.stack([store.lengths(column) + 1 for column in ("source", "target")], axis=1)


@BOTH
def test_the_gradient_of_a_window_does_not_depend_on_how_it_is_cut(model, recipe, pairs, tmp_path):
    moments = []
    for name, training in {"one": {"batch_tokens": 100_000}, "cut": {"batch_tokens": 90, "accumulate": 1000}}.items():
        values = recipe(model, steps=1, clip_norm=None, betas=[0.5, 0.9], **training)
        values["model"] |= {"dropout": 0.0} | ({"attention_dropout": 0.0} if model == "transformer" else {})
        trained = regard.train(values, output=tmp_path / name, data=pairs)
        moments.append(load_file(trained.folder / "checkpoints" / "step-00000001" / "optimizer.safetensors"))
        assert lines(trained.folder, "train")[0]["tokens"] == _lengths(trained.folder)[:, 1].sum()
    # After one update Adam's first moment is half the gradient.
    for key in moments[0]:
        torch.testing.assert_close(
            moments[0][key], moments[1][key], rtol=1e-4, atol=1e-7, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("schedule", ["inverse_square_root", "linear", "cosine", "constant"])
def test_the_schedule_is_applied(schedule, recipe, pairs, tmp_path):
    values = recipe(steps=8, schedule=schedule, warmup=3, learning_rate=0.01)
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    rates = [line["learning_rate"] for line in lines(trained.folder, "train")]
    rest = {
        "inverse_square_root": [math.sqrt(3 / step) for step in range(4, 9)],
        "linear": [(8 - step) / 5 for step in range(4, 9)],
        "cosine": [(1 + math.cos(math.pi * (step - 3) / 5)) / 2 for step in range(4, 9)],
        "constant": [1.0] * 5,
    }[schedule]
    assert rates == pytest.approx([0.01 * share for share in [1 / 3, 2 / 3, 1.0, *rest]])


def test_epochs_decide_the_length_of_a_schedule(recipe, pairs, tmp_path):
    values = recipe(steps=None, epochs=1.5, schedule="linear")
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    windows = len(Batches(_lengths(trained.folder), maximum_tokens=220, seed=5).epoch(0))
    assert trained.steps == math.ceil(1.5 * windows)
    assert trained.reason == "1.5 epochs done"
    assert lines(trained.folder, "train")[-1]["learning_rate"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("limit", [{"steps": 5}, {"steps": None, "epochs": 1.5}, {"steps": None, "epochs": 2.0}])
def test_a_finished_run_is_returned_as_it_is(limit, recipe, pairs, tmp_path):
    values = recipe(**limit)
    first = regard.train(values, output=tmp_path / "run", data=pairs)
    log = (first.folder / "log.jsonl").read_bytes()
    again = regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert (again.steps, again.reason, again.metrics) == (first.steps, first.reason, first.metrics)
    assert (first.folder / "log.jsonl").read_bytes() == log


def test_a_finished_run_goes_further_when_asked(recipe, pairs, tmp_path):
    first = regard.train(recipe(steps=4), output=tmp_path / "run", data=pairs)
    further = regard.train(recipe(steps=7), output=tmp_path / "run", data=pairs, resume=True)
    assert (first.steps, further.steps) == (4, 7)
    shorter = regard.train(recipe(steps=2), output=tmp_path / "run", data=pairs, resume=True)
    assert shorter.steps == 7
    assert [line["step"] for line in lines(first.folder, "train")] == list(range(1, 8))


def scripted(monkeypatch, losses: dict[int, float]) -> None:
    """Evaluations by step, as if measured."""
    monkeypatch.setattr(run, "evaluation_loss", lambda loop, data: {"loss": losses[loop.progress.step]})


def test_patience_ends_the_run_and_the_best_is_published(monkeypatch, recipe, pairs, tmp_path):
    scripted(monkeypatch, {2: 3.0, 4: 2.0, 6: 2.5, 8: 2.0, 10: 1.0})
    trained = regard.train(recipe(steps=50, evaluate_every=2, patience=2), output=tmp_path / "run", data=pairs)
    assert (trained.steps, trained.best_step) == (8, 4)
    assert trained.reason == "no better loss in 2 evaluations"
    assert trained.metrics == {"loss": 2.0}
    kept = sorted(path.name for path in (trained.folder / "checkpoints").iterdir())
    assert kept == ["step-00000004", "step-00000008"]
    assert json.loads((trained.folder / "checkpoints.json").read_text()) == {
        "last": "step-00000008",
        "best": "step-00000004",
    }
    weights = [
        (trained.folder / part / "model.safetensors").read_bytes()
        for part in (".", "checkpoints/step-00000004", "checkpoints/step-00000008")
    ]
    assert weights[0] == weights[1] != weights[2]


def test_patience_begins_anew_with_every_better_evaluation(monkeypatch, recipe, pairs, tmp_path):
    scripted(monkeypatch, {1: 3.0, 2: 3.5, 3: 2.0, 4: 2.5, 5: 2.6, 6: 1.0})
    trained = regard.train(recipe(steps=50, evaluate_every=1, patience=2), output=tmp_path / "run", data=pairs)
    assert (trained.steps, trained.best_step) == (5, 3)


def test_more_patience_lets_an_ended_run_go_on(monkeypatch, recipe, pairs, tmp_path):
    scripted(monkeypatch, {2: 2.0, 4: 2.5, 6: 1.0})
    values = recipe(steps=6, evaluate_every=2, patience=1)
    assert regard.train(values, output=tmp_path / "run", data=pairs).steps == 4
    values["training"]["patience"] = 2
    trained = regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert (trained.steps, trained.best_step, trained.reason) == (6, 6, "6 steps done")


def test_the_best_by_bleu_is_the_highest(monkeypatch, recipe, pairs, tmp_path):
    bleu = {2: 10.0, 4: 30.0, 6: 20.0}
    steps = iter(bleu)
    scripted(monkeypatch, dict.fromkeys(bleu, 1.0))
    monkeypatch.setattr(
        Translator, "validate", lambda self, data, count: {"exact_match": 0.5, "bleu": bleu[next(steps)]}
    )
    values = recipe(steps=6, evaluate_every=2, evaluate_generated=3, best="bleu")
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    assert trained.best_step == 4
    assert trained.metrics == {"loss": 1.0, "exact_match": 0.5, "bleu": 30.0}


def test_the_log_has_every_step_once_and_adds_up(recipe, pairs, tmp_path):
    values = recipe(steps=7, log_every=3, evaluate_every=4, save_every=2)
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    assert [line["step"] for line in lines(trained.folder, "train")] == [3, 6, 7]
    assert [line["step"] for line in lines(trained.folder, "validation")] == [4, 7]
    every = regard.train(recipe(steps=7), output=tmp_path / "every", data=pairs)
    steps = lines(every.folder, "train")
    tokens = np.diff([0] + [line["tokens"] for line in steps])
    losses = np.array([line["loss"] for line in steps])
    assert lines(trained.folder, "train")[0]["loss"] == pytest.approx((losses[:3] @ tokens[:3]) / tokens[:3].sum())
    assert lines(trained.folder, "train")[1]["loss"] == pytest.approx((losses[3:6] @ tokens[3:6]) / tokens[3:6].sum())


def test_evaluation_is_a_mean_over_tokens_without_smoothing_or_dropout(recipe, pairs, tmp_path):
    values = recipe(steps=2, label_smoothing=0.3)
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    translator = trained.load()
    store = TokenStore.open(trained.folder / "data" / "validation")
    total, tokens = 0.0, 0
    for row in range(len(store)):
        batch = translator.task.batch(
            [store.sequence("source", row).tolist()], [store.sequence("target", row).tolist()]
        )
        with torch.no_grad():
            logits = translator.model(batch.source, batch.target)[0]
        total += F.cross_entropy(logits, batch.labels[0], reduction="sum").item()
        tokens += batch.labels.shape[1]
    assert trained.metrics["loss"] == pytest.approx(total / tokens, rel=1e-5)
    assert trained.metrics["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-4)


def test_evaluation_does_not_touch_the_training(recipe, pairs, tmp_path):
    often = regard.train(recipe(steps=5, evaluate_every=1, evaluate_generated=2), output=tmp_path / "a", data=pairs)
    seldom = regard.train(recipe(steps=5), output=tmp_path / "b", data=pairs)
    name = "checkpoints/step-00000005/model.safetensors"
    assert (often.folder / name).read_bytes() == (seldom.folder / name).read_bytes()


def test_a_seed_gives_the_same_run_twice_and_another_seed_another(recipe, pairs, tmp_path):
    runs = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        values = recipe(steps=3) | {"seed": seed}
        torch.manual_seed(len(runs))  # whatever the caller's own generator says
        runs.append(regard.train(values, output=tmp_path / name, data=pairs).folder / "model.safetensors")
    assert runs[0].read_bytes() == runs[1].read_bytes() != runs[2].read_bytes()


def test_training_leaves_the_callers_generator_alone(recipe, pairs, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs)
    assert torch.equal(torch.rand(4), expected)


def test_evaluating_an_empty_store_is_one_sentence(tmp_path):
    store = TokenStore.write(tmp_path / "empty", {"source": 9, "target": 9}, [])
    task = SimpleNamespace(lengths=lambda data: np.zeros((len(data), 2), np.int64))
    loop = SimpleNamespace(settings=SimpleNamespace(batch_tokens=10), task=task)
    with pytest.raises(regard.InputError, match="no example"):
        evaluation_loss(loop, store)
