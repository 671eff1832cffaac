"""Folders of BART as transformers writes them: our answers beside those of `generate`, and the folders written back."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

import regard
from regard.checkpoints import read_card
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.inspection.analysis import TargetProbability
from regard.layers import Tokens
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = [
    "Paris is the capital of France, and Berlin is that of Germany.",
    "the small dog barks",
    "naïve café — 日本語 🙂",
]
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
START, PADDING, END = 0, 1, 2


@pytest.fixture(scope="module")
def theirs() -> Any:
    """Their tokenizer of bytes."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=letters, special_tokens=FIRST, show_progress=False)
    backend.train_from_iterator(TEXTS * 8, trainer)
    model = json.loads(backend.to_str())["model"]
    vocabulary = model["vocab"] | {"<mask>": len(model["vocab"])}
    return transformers.BartTokenizer(vocab=vocabulary, merges=[tuple(merge) for merge in model["merges"]])


@pytest.fixture(scope="module")
def folder_of(theirs, tmp_path_factory):
    """A folder as transformers writes it, everything drawn anew; the end token is probable enough to come."""

    def make(generation: dict[str, Any] | None = None, kind: str = "ForConditionalGeneration", **changes: Any) -> Path:
        folder = tmp_path_factory.mktemp("bart")
        theirs.save_pretrained(folder)
        sizes: dict[str, Any] = {
            "vocab_size": len(theirs),
            "d_model": 20,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 5,
            "decoder_attention_heads": 5,
            "encoder_ffn_dim": 14,
            "decoder_ffn_dim": 14,
            "max_position_embeddings": 128,
        }
        torch.manual_seed(5)
        model = getattr(transformers, f"Bart{kind}")(transformers.BartConfig(**(sizes | changes))).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape) / parameter.shape[-1] ** 0.5)
            if kind == "ForConditionalGeneration":
                model.final_logits_bias.normal_(std=0.5)
                model.final_logits_bias[0, END] = 2.5
        model.save_pretrained(folder)
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps({**USUAL, **generation}))
        return folder

    return make


USUAL = {
    "bos_token_id": START,
    "pad_token_id": PADDING,
    "eos_token_id": END,
    "decoder_start_token_id": END,
    "forced_bos_token_id": START,
    "forced_eos_token_id": END,
    "bad_words_ids": [[PADDING]],  # never written here
    "max_length": 16,
}
OF_CNN = {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "min_length": 8, "early_stopping": True}
ASKED: dict[str, dict[str, Any]] = {
    "greedy": {},
    "start not forced": {"forced_bos_token_id": None},
    "end not forced": {"forced_eos_token_id": None},
    "min_length": {"min_length": 7},
    "n-grams": {"no_repeat_ngram_size": 2, "min_length": 12},
    "single tokens once": {"no_repeat_ngram_size": 1},
    "repetition": {"repetition_penalty": 4.0},
    "beam": {"num_beams": 3},
    "beam, start not forced": {"num_beams": 3, "forced_bos_token_id": None},
    "beam, long": {"num_beams": 4, "length_penalty": 2.0},
    "beam, short": {"num_beams": 2, "length_penalty": 0.0, "max_length": 6},
    "as for summaries of news": OF_CNN,
}


def written(model: Any, ids: list[int]) -> list[int]:
    """What `generate` writes after the decoder's first token, up to the end token."""
    with torch.no_grad():
        found = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))[
            0, 1:
        ].tolist()
    return found[: found.index(END) + 1] if END in found else found


@pytest.mark.parametrize("name", ASKED)
def test_answers_are_those_of_generate(name, theirs, folder_of):
    folder = folder_of(ASKED[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = regard.load(folder)
    model = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    answers = ours.translate_batch(TEXTS)
    for text, found in zip(TEXTS, answers, strict=True):
        ids = theirs(text)["input_ids"]
        wanted = written(model, ids)
        assert list(found.source_tokens) == theirs.convert_ids_to_tokens(ids)
        assert list(found.target_tokens) == theirs.convert_ids_to_tokens(wanted), text
        assert found.text == theirs.decode(wanted, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_the_loss_is_theirs(theirs, folder_of):
    """Targets are `<s> y </s>`, and the decoder reads them after the end token."""
    folder = folder_of()
    ours = regard.load(folder)
    model = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    source, target = (torch.tensor([theirs(text)["input_ids"]]) for text in TEXTS[:2])
    with torch.no_grad():
        wanted = model(input_ids=source, labels=target).loss
        batch = ours.teacher_forced([(TEXTS[0], TEXTS[1])])
        found = ours.task.loss(ours.model, batch)
    assert torch.equal(batch.source.ids, source)
    assert torch.equal(batch.labels, target)
    torch.testing.assert_close(found.total / found.tokens, wanted, rtol=1e-5, atol=1e-5)


def test_a_folder_comes_back_and_other_programs_read_it_the_same(theirs, folder_of, tmp_path):
    folder = folder_of(OF_CNN)
    ours = regard.load(folder)
    ours.save(tmp_path / "ours")
    assert read_card(tmp_path / "ours").layout["name"] == "bart"
    again = regard.load(tmp_path / "ours")
    assert again.task == ours.task
    assert again.model.config == ours.model.config
    assert [each.text for each in again.translate_batch(TEXTS)] == [each.text for each in ours.translate_batch(TEXTS)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours").eval()
    for text in TEXTS:
        ids = theirs(text)["input_ids"]
        assert tokenizer(text)["input_ids"] == ids
        assert ours.translate(text).target_tokens == tuple(theirs.convert_ids_to_tokens(written(model, ids)))


def test_an_old_folder_with_decoding_in_its_config(theirs, folder_of, tmp_path):
    """As bart-large-cnn was published: no generation_config.json, merges instead of a tokenizer.json, and no row for the mask."""
    folder = folder_of(vocab_size=len(theirs) - 1)
    model = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy(folder / "model.safetensors", old)
    layout = json.loads((folder / "tokenizer.json").read_text())["model"]
    (old / "vocab.json").write_text(json.dumps(layout["vocab"]))
    (old / "merges.txt").write_text("\n".join(["#version: 0.2", *(" ".join(merge) for merge in layout["merges"])]))
    config = json.loads((folder / "config.json").read_text())
    config |= {**OF_CNN, "max_length": 16, "bad_words_ids": [[PADDING]], "forced_eos_token_id": END}
    config |= {
        "force_bos_token_to_be_generated": True,
        "_num_labels": 3,
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "classif_dropout": 0.0,
        "gradient_checkpointing": False,
        "normalize_before": False,
        "normalize_embedding": True,
        "output_past": True,
        "prefix": " ",
        "static_position_embeddings": False,
        "task_specific_params": {"summarization": {"num_beams": 6}},
    }
    (old / "config.json").write_text(json.dumps(config))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = regard.load(old)
    assert ours.task.target_tokenizer.size == len(theirs) - 1
    model.generation_config = transformers.GenerationConfig(**USUAL, **OF_CNN)
    for text in TEXTS:
        wanted = theirs.convert_ids_to_tokens(written(model, theirs(text)["input_ids"]))
        assert list(ours.translate(text).target_tokens) == wanted
    ours.save(tmp_path / "again")
    assert [each.text for each in regard.load(tmp_path / "again").translate_batch(TEXTS)] == [
        each.text for each in ours.translate_batch(TEXTS)
    ]


def test_a_folder_without_a_head_opens(theirs, folder_of):
    """As bart-base was published: names without their prefix, and no bias of the logits."""
    folder = folder_of(kind="Model")
    ours = regard.load(folder)
    model = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    batch = ours.teacher_forced([(TEXTS[0], TEXTS[1])])
    with torch.no_grad():
        wanted = model(input_ids=batch.source.ids, decoder_input_ids=batch.target.ids).logits
        torch.testing.assert_close(ours.model(batch.source, batch.target), wanted, rtol=1e-5, atol=1e-5)


def test_fine_tuning_reads_texts_as_the_folder_does(folder_of, tmp_path):
    folder = folder_of(OF_CNN)
    tuned = regard.train(
        {
            "model": {"pretrained": str(folder)},
            "data": {"validation_size": 2},
            "training": {"steps": 2, "batch_tokens": 200, "learning_rate": 1e-3, "warmup": 1},
        },
        output=tmp_path / "run",
        data=[(text, text[:9]) for text in TEXTS * 4],
    ).load()
    assert tuned.task.surrounded
    assert tuned.model.config.start_id == END
    assert tuned.task.read([[7, 8]]).ids.tolist() == [[START, 7, 8, END]]
    assert tuned.translate(TEXTS[1]).source_tokens[0] == "<s>"


def test_attribution_reads_the_tokens_around_a_text(folder_of):
    ours = regard.load(folder_of({}))
    scored = TargetProbability(source=TEXTS[1], target="the dog").of(ours)
    source, target = scored.read
    assert (source.texts[0], source.texts[-1], target.texts[:2]) == ("<s>", "</s>", ("</s>", "<s>"))
    found = scored.score([Tokens.pad([read.ids]) for read in scored.read])
    batch = ours.teacher_forced([(TEXTS[1], "the dog")])
    torch.testing.assert_close(-found.sum(), ours.task.loss(ours.model, batch).total)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"decoder_start_token_id": START}, "decoder_start_token_id"),
        ({"pad_token_id": 3}, "pad_token_id"),
        ({"vocab_size": 300}, "vocab_size"),
    ],
)
def test_what_does_not_belong_together_is_refused_by_name(changes, named, folder_of):
    with pytest.raises(InputError, match=named):
        regard.load(folder_of(**changes))


def test_a_tokenizer_keeps_all_but_special_tokens_without_a_row(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    smaller = tokenizer.within(tokenizer.size - 1)
    assert smaller.mask_id is None
    assert (smaller.start_id, smaller.end_id, smaller.kind) == (START, END, "roberta")
    assert smaller.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert tokenizer.within(tokenizer.size) is tokenizer


def test_a_forced_start_that_is_no_token_is_refused(folder_of):
    ours = regard.load(folder_of({}))
    with pytest.raises(InputError, match=r"generation\.forced_start: the model has tokens from 0 to"):
        ours.translate(TEXTS[0], GenerationSettings(forced_start=9_999))
    with pytest.raises(InputError, match=r"generation\.forced_start"):
        GenerationSettings(forced_start=-1)
