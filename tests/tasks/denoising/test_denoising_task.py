"""Pre-training by denoising: from text to token stores, what a model reads and writes, resumed, saved and opened elsewhere."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.checkpoints import read_card
from regard.cli.main import main
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks.denoising import Denoiser, DenoisingData, DenoisingTask, MaskTokenizerSettings, prepare_denoising
from regard.tasks.stretches import STRETCH

BART: dict[str, Any] = {
    "name": "transformer",
    "width": 16,
    "heads": 2,
    "feedforward_width": 24,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "maximum_positions": 40,
    "positions": "learned",
    "first_position": 2,
    "scaled_embedding": False,
    "embedding_norm": True,
    "attention_bias": True,
    "activation": "gelu",
    "output_bias": "none",
    "dropout": 0.0,
}


def documents(count: int, seed: int = 3) -> list[list[str]]:
    draw = random.Random(seed)
    nouns = ["dog", "cat", "bird", "horse", "fish"]
    return [
        [f"the {draw.choice(nouns)} sees the {draw.choice(nouns)} today." for _ in range(draw.randint(3, 9))]
        for _ in range(count)
    ]


def recipe(data: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    return {
        "task": "denoising",
        "seed": 5,
        "model": BART,
        "data": {"length": 24, "validation_share": 0.2} | (data or {}),
        "tokenizer": {"kind": "roberta", "size": 300},
        "training": {
            "steps": 6,
            "batch_tokens": 200,
            "learning_rate": 1e-2,
            "warmup": 3,
            "precision": "float32",
            "evaluate_every": 3,
            "save_every": 3,
        }
        | training,
    }


def prepared(folder: Path, data: dict[str, Any] | None = None, **tokenizer: Any):
    settings = MaskTokenizerSettings(**({"size": 300} | tokenizer))
    own = DenoisingData(**({"length": 24, "validation_share": 0.2} | (data or {})))
    return prepare_denoising(own, settings, folder, seed=2, given=documents(30))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.train(recipe(), output=tmp_path_factory.mktemp("run") / "run", data=documents(20))


def test_a_batch_is_noisy_text_and_the_text_as_it_was(tmp_path):
    found = prepared(tmp_path)
    task, rows = found.task, [4, 0, 2]
    tokenizer = task.tokenizer
    batch = task.training_batch(found.train, rows, 3)
    lengths = task.lengths(found.train)[rows]
    assert batch.target.lengths.tolist() == lengths[:, 1].tolist()
    assert (batch.source.lengths <= torch.from_numpy(lengths[:, 0])).all()
    assert (batch.target.ids[:, 0] == tokenizer.end_id).all()
    assert (batch.target.ids[:, 1] == batch.source.ids[:, 0]).all()
    for row, source, labels, length in zip(rows, batch.source.ids, batch.labels, batch.source.lengths, strict=True):
        text = found.train.sequence(STRETCH, row).tolist()
        assert labels[: len(text) + 2].tolist() == [tokenizer.start_id, *text, tokenizer.end_id]
        read = source[:length].tolist()
        assert (read[0], read[-1]) == (tokenizer.start_id, tokenizer.end_id)
        kept = [token for token in read[1:-1] if token != tokenizer.mask_id]
        assert len(kept) == len(text) - round(0.3 * len(text))
        assert not [token for token in kept if kept.count(token) > text.count(token)]


def test_sentences_end_with_full_stops(tmp_path):
    found = prepared(tmp_path, {"density": 0.0})
    task = found.task
    assert task.tokenizer.tokens(task.full_stops) == ["."]
    text = found.train.sequence(STRETCH, 0).tolist()
    moved = task.training_batch(found.train, [0], 1).source.ids[0].tolist()[1:-1]
    assert sorted(moved) == sorted(text)
    assert moved != text
    plain = prepared(tmp_path / "plain", {"density": 0.0, "permute": False})
    assert plain.task.training_batch(plain.train, [0], 1).source.ids[0].tolist()[1:-1] == text


def test_other_noise_in_each_epoch_and_the_same_in_validation(tmp_path):
    found = prepared(tmp_path)
    task, store = found.task, found.train

    def read(draw: int | None) -> list[list[int]]:
        batch = task.read_batch(store, [0, 1]) if draw is None else task.training_batch(store, [0, 1], draw)
        return batch.source.ids.tolist()

    assert read(0) == read(0) != read(1)
    assert read(None) == read(None)
    static = prepared(tmp_path / "static", {"corruption": "static"}).task
    first, other = (static.training_batch(store, [0, 1], draw).source.ids for draw in (0, 1))
    assert torch.equal(first, other)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(trained, tmp_path):
    texts = documents(20)
    regard.train(recipe(steps=3), output=tmp_path / "parts", data=texts)
    again = regard.train(recipe(), output=tmp_path / "parts", data=texts, resume=True)
    assert again.metrics == trained.metrics
    one, other = (run.load().model.state_dict() for run in (trained, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_folder_is_loaded_as_it_was_saved(trained):
    model = regard.load(trained.folder, task="denoising")
    assert model.task == DenoisingTask(model.task.tokenizer, model.task.noise)
    assert model.task.noise.seed == 5
    texts = ["the dog sees the cat today.\n\nthe cat sees the fish today."] * 9
    found = regard.evaluate(model, texts)
    again = regard.evaluate(model, texts, batch_tokens=60)
    assert found.metrics == pytest.approx(again.metrics)
    assert found.metrics["loss"] > 0


def test_evaluation_is_the_loss_of_the_validation_set(tmp_path):
    texts, held_out = documents(20), documents(6, seed=9)
    run = regard.train(recipe(), output=tmp_path / "run", data=texts, validation=held_out)
    found = regard.evaluate(run.load(), held_out)
    assert found.count == len(TokenStore.open(run.folder / "data" / "validation"))
    assert found.metrics["loss"] == pytest.approx(run.metrics["loss"], rel=1e-4)


def test_transformers_opens_it_as_a_bart_and_writes_the_same(trained, tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = trained.load()
    ours.save(tmp_path / "model")
    assert read_card(tmp_path / "model").layout["name"] == "bart"
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    text = "the <mask> sees the cat today."
    found = ours.fill(text, GenerationSettings(maximum_length=9))
    ids = torch.tensor([[tokenizer.bos_token_id, *ours.encode_source(text), tokenizer.eos_token_id]])
    written = theirs.generate(ids, max_new_tokens=9, attention_mask=torch.ones_like(ids))[0, 1:].tolist()
    assert tokenizer.convert_ids_to_tokens(written)[: len(found.tokens)] == list(found.tokens)


def test_translation_goes_on_from_it_with_the_same_tokens_around_texts(trained, tmp_path):
    tuned = regard.train(
        {
            "model": {"pretrained": str(trained.folder)},
            "data": {"validation_size": 3},
            "training": {"steps": 2, "batch_tokens": 200, "learning_rate": 1e-3, "warmup": 1},
        },
        output=tmp_path / "tuned",
        data=[("the dog", "the cat"), ("a fish", "a bird")] * 10,
    ).load()
    assert tuned.task.surrounded
    assert tuned.model.config.start_id == tuned.task.target_tokenizer.end_id


class Writes(nn.Module):
    """Stands for a model that has learnt by heart: it writes the same tokens, whatever it reads."""

    def __init__(self, model: Any, tokens: list[int]) -> None:
        super().__init__()
        self.inner, self.tokens, self.config = model, tokens, model.config
        self.maximum_source_length, self.maximum_target_length = 20, 64
        self.length_setting, self.has_alignment = "model.maximum_positions", False

    def start(self, source):
        return self.inner.start(source)

    def step(self, tokens, state):
        logits, after = self.inner.step(tokens, state)
        told = torch.full_like(logits, -50.0)
        told[:, self.tokens[min(state.length, len(self.tokens) - 1)]] = 0.0
        return told, after

    def alignment(self, state):
        return self.inner.alignment(state)


def test_a_text_is_written_whole_with_words_for_the_mask(trained):
    ours = trained.load()
    tokenizer = ours.task.tokenizer
    said = [tokenizer.start_id, *tokenizer.encode("the dog sees the cat."), tokenizer.end_id]
    found = Denoiser(Writes(ours.model, said), ours.task).fill("the <mask> the cat.")
    assert found.best == "the dog sees the cat."
    assert found.tokens == tuple(tokenizer.tokens(said))
    assert found.log_probability == pytest.approx(0.0, abs=1e-4)
    assert ours.encode_source("the <mask> cat").count(tokenizer.mask_id) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "text 2 is empty"),
        ("the dog sees the cat today " * 5 + "<mask>", "and the model has positions for 20"),
    ],
)
def test_texts_that_cannot_be_filled(trained, text, words):
    ours = trained.load()
    model = Denoiser(Writes(ours.model, [2]), ours.task)
    with pytest.raises(InputError, match=words):
        model.fill_batch(["<mask>", text])
    with pytest.raises(InputError, match="put it in a list"):
        model.fill_batch("<mask>")


def test_bad_settings_and_tokenizers_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"data\.density"):
        DenoisingData(density=1.5)
    with pytest.raises(InputError, match=r"data\.length"):
        DenoisingData(length=4)
    without = regard.text.Tokenizer.train(["the dog"], kind="word", size=20)
    without.save(tmp_path / "words")
    with pytest.raises(InputError, match="the tokenizer has no mask"):
        prepared(tmp_path / "data", path=str(tmp_path / "words"))
    with pytest.raises(InputError, match=r"lower data\.length, to 40 at most"):
        regard.train(recipe({"length": 90}), output=tmp_path / "run", data=documents(40))


@pytest.mark.slow
def test_the_recipes_train_a_small_one_which_fills_masks_and_is_fine_tuned(tmp_path, capsys):
    recipes = Path(__file__).parents[3] / "recipes"
    text = "\n\n".join("\n".join(each) for each in documents(30))
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("the dog\tthe cat\na fish\ta bird\n" * 12, encoding="utf-8")
    sizes = {name: BART[name] for name in ("width", "heads", "feedforward_width", "encoder_layers", "decoder_layers")}
    quick = ["training.steps=2", "training.warmup=1", "training.batch_tokens=200"]
    made = main(
        [
            *("train", str(recipes / "bart-small-denoising.yaml")),
            *(f"data.train={tmp_path / 'train.txt'}", f"data.validation={tmp_path / 'valid.txt'}"),
            *("data.builtin=null", "data.documents=blank_line", "data.cleaning=none", "data.length=24"),
            *(f"model.{name}={value}" for name, value in sizes.items()),
            *("tokenizer.size=290", *quick, "--output", str(tmp_path / "bart")),
        ]
    )
    assert made == 0
    capsys.readouterr()
    assert main(["fill", str(tmp_path / "bart"), "the <mask> sees", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["filled"][0]["text"] == "the <mask> sees"
    assert main(["fill", str(tmp_path / "bart"), "the dog sees"]) == 2
    assert "there is no <mask> in it" in capsys.readouterr().err
    tuned = [f"model.pretrained={tmp_path / 'bart'}", f"data.train={tmp_path / 'pairs.tsv'}", *quick]
    assert main(["train", str(recipes / "fine-tune-bart.yaml"), *tuned, "--output", str(tmp_path / "tuned")]) == 0
    capsys.readouterr()
    assert main(["translate", str(tmp_path / "tuned"), "the dog"]) == 0
