"""The task against a plain reading: what a batch hides, what the losses are over, how they add up over batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.checkpoints import read_parameters
from regard.data.batching import Batches
from regard.data.pretraining import Masking
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.models import MODELS
from regard.tasks.encoders import Joined, join
from regard.tasks.masked_language_modelling import MaskedLanguageModellingTask
from regard.training import read_recipe


@pytest.fixture
def task(tokenizer) -> MaskedLanguageModellingTask:
    return MaskedLanguageModellingTask(tokenizer=tokenizer, maximum_length=32, masking=Masking(chosen_share=0.3))


@pytest.fixture
def inputs(tokenizer) -> list[Joined]:
    first = tokenizer.encode_batch(["the dog sees a cat.", "a bird feeds every small horse.", "the fish"])
    second = tokenizer.encode_batch(["a cat likes the dog.", "the fish", "every old dog sees the small cat."])
    return [join(tokenizer, one, other, maximum=32) for one, other in zip(first, second, strict=True)]


def test_a_batch_says_what_stood_where(task, inputs):
    batch = task.batch(inputs, [0, 1, 2], nexts=[0, 1, 1], draw=3)
    assert (
        len(batch.at)
        == len(batch.labels)
        == task.masking.counts(np.array([len(each.ids) for each in inputs]), np.array([99] * 3)).sum()
    )
    whole = batch.tokens.ids.flatten().clone()
    whole[batch.at] = batch.labels
    for row, joined in zip(whole.view(batch.tokens.ids.shape), inputs, strict=True):
        assert row[: len(joined.ids)].tolist() == joined.ids
        assert (row[len(joined.ids) :] == task.tokenizer.padding_id).all()
    assert batch.next.tolist() == [0, 1, 1]
    for row, joined in zip(batch.segments, inputs, strict=True):
        assert row[: joined.second].tolist() == [0] * joined.second
        assert set(row[joined.second :].tolist()) == {1}


def test_the_losses_are_those_written_plainly(task, inputs, language_model):
    model = language_model().model
    batch = task.batch(inputs, [0, 1, 2], nexts=[0, 1, 1])
    loss = task.loss(model, batch)
    encoded = model(batch.tokens, batch.segments)  # every place
    logits = encoded.logits.flatten(0, 1)[batch.at]
    torch.testing.assert_close(loss.total, F.cross_entropy(logits, batch.labels, reduction="sum"))
    assert loss.tokens == len(batch.labels)
    assert loss.correct == (logits.argmax(dim=-1) == batch.labels).sum()
    (name,) = loss.auxiliary
    following = loss.auxiliary[name]
    assert name == "next_sentence"
    torch.testing.assert_close(
        following.total, F.cross_entropy(encoded.next_sentence, torch.tensor([0, 1, 1]), reduction="sum")
    )
    assert following.tokens == 3
    assert following.correct == (encoded.next_sentence.argmax(dim=-1) == torch.tensor([0, 1, 1])).sum()


def test_without_next_sentences_there_is_one_loss(tokenizer, inputs, language_model):
    task = MaskedLanguageModellingTask(tokenizer=tokenizer, maximum_length=32, next_sentence=False)
    assert task.model_settings()["head"] == "masked"
    loss = task.loss(language_model(next_sentence=False).model, task.batch(inputs, [0, 1, 2]))
    assert loss.auxiliary == {}


def log(folder: Path, event: str) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_training_is_the_sum_of_two_means_over_the_whole_update(accumulate, masked_recipe, documents, tmp_path):
    """Against its naive twin: each window as one batch, torch's own losses, a mean of each."""
    values = masked_recipe(accumulate=accumulate, clip_norm=None, epsilon=1e-4)
    run = regard.train(values, output=tmp_path / "run", data=documents)
    recipe = read_recipe(values)
    store = TokenStore.open(run.folder / "data" / "train")
    task = MaskedLanguageModellingTask.load(run.folder, json.loads((run.folder / "regard.json").read_text())["task"])
    torch.manual_seed(recipe.seed)
    model = MODELS["bert"].model(recipe.model_config(task.model_settings())).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=recipe.training.betas, eps=1e-4, weight_decay=0.0)
    batches = Batches(task.lengths(store), maximum_tokens=200, seed=recipe.seed)
    losses, epoch = [], 0
    while len(losses) < 6:
        order = batches.epoch(epoch)
        for start in range(0, len(order), accumulate):
            rows = np.concatenate(order[start : start + accumulate]).tolist()
            batch = task.training_batch(store, rows, epoch)
            encoded = model(batch.tokens, batch.segments)
            loss = F.cross_entropy(encoded.logits.flatten(0, 1)[batch.at], batch.labels)
            loss = loss + F.cross_entropy(encoded.next_sentence, batch.next)
            loss.backward()
            for group in optimizer.param_groups:
                step = len(losses) + 1
                group["lr"] = 1e-2 * min(step / 3, (3 / step) ** 0.5)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if len(losses) == 6:
                break
        epoch += 1
    assert [line["loss"] for line in log(run.folder, "train")] == pytest.approx(losses, rel=1e-4)
    _, ours = read_parameters(run.folder / "checkpoints" / "step-00000006")
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.detach(), rtol=1e-3, atol=1e-4)


def test_what_a_run_says_of_both_tasks(masked_recipe, documents, tmp_path):
    said: list[str] = []
    run = regard.train(masked_recipe(), output=tmp_path / "run", data=documents, say=said.append)
    (line, last) = log(run.folder, "validation")
    for each in (line, last):
        assert each["loss"] == pytest.approx(each["masked_loss"] + each["next_sentence_loss"])
        assert each["perplexity"] == pytest.approx(np.exp(each["masked_loss"]))
        assert 0 <= each["masked_accuracy"] <= 1
        assert 0 <= each["next_sentence_accuracy"] <= 1
    trained = log(run.folder, "train")[0]
    assert trained["loss"] > trained["next_sentence_loss"] > 0
    (statistics,) = [sentence for sentence in said if sentence.startswith("train: ")]
    for part in ("32 documents", "sentences", "inputs", "true next text", "padding", "were cut off"):
        assert part in statistics


def test_other_tokens_are_hidden_in_every_epoch_unless_static(tokenizer, inputs):
    for static in (False, True):
        task = MaskedLanguageModellingTask(tokenizer=tokenizer, maximum_length=32, masking=Masking(static=static))
        one, other = (task.batch(inputs, [0, 1, 2], draw=draw) for draw in (0, 1))
        assert torch.equal(one.at, other.at) is static


def test_inputs_that_are_longer_than_the_model(masked_recipe, documents, tmp_path):
    values = masked_recipe(data={"maximum_length": 40})
    with pytest.raises(InputError, match=r"data\.maximum_length is 40, and the model has 32 positions"):
        regard.train(values, output=tmp_path / "run", data=documents)


def test_a_folder_says_what_it_was_trained_for(masked_recipe, documents, tmp_path):
    run = regard.train(masked_recipe(data={"next_sentence": False}), output=tmp_path / "run", data=documents)
    model = run.load()
    assert model.task.next_sentence is False
    assert model.task.masking.seed == 5
    assert "model.fill" in (run.folder / "README.md").read_text()
    again = regard.load(run.folder, task="masked_language_modelling")
    text = "the [MASK] sees a cat."
    assert again.fill(text) == model.fill(text)
    with pytest.raises(InputError, match="masked language modelling, and translation is wanted"):
        regard.load(run.folder, task="translation")
