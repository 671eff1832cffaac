"""Other programs on our folders: `AutoTokenizer` gives our ids, `generate` and CTranslate2 our greedy tokens."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

import regard
from regard.generation import GenerationSettings
from regard.models import Transformer
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

FAMILIES = {"marian": "post", "pegasus": "pre"}
both = pytest.mark.parametrize("family", FAMILIES)
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "🙂 café 12€",
    "</s>",
    "a <pad> b<unk>",
    "<s></s>x",
    "line\nbreak\t",
    "Où est-il?",
]


@both
@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word", "character"])
def test_their_tokenizer_gives_our_ids(family, kind, exported, tmp_path):
    tokenizer = Tokenizer.train(
        ["The dog barks at the  cat.\nOù est-il? 12€ <s></s>x pad unk 🙂 café", "\t()"] * 3, kind=kind, size=160
    )
    task = TranslationTask(tokenizer, tokenizer)
    ours = exported(FAMILIES[family])
    small = Transformer(
        type(ours.model.config)(
            **task.model_settings(),
            width=4,
            heads=1,
            feedforward_width=4,
            encoder_layers=1,
            decoder_layers=1,
            norm=FAMILIES[family],
        )
    )
    Translator(small, task).save(tmp_path / "model")
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert (loaded.pad_token_id, loaded.eos_token_id) == (tokenizer.padding_id, tokenizer.end_id)
    for text in AWKWARD:
        ids = tokenizer.encode(text)
        assert loaded(text)["input_ids"] == [*ids, tokenizer.end_id], text
        assert loaded.decode(
            [tokenizer.start_id, *ids, tokenizer.end_id], skip_special_tokens=True
        ) == tokenizer.decode(ids), text
    padded = loaded(AWKWARD, padding=True, return_tensors="pt")
    read = task.read(tokenizer.encode_batch(AWKWARD))
    assert torch.equal(padded["input_ids"], read.ids)
    assert torch.equal(padded["attention_mask"].bool(), read.valid)


def test_extra_tokens_go_along(exported, tmp_path):
    tokenizer = Tokenizer.train(["the dog <2de>"], kind="character", size=30, extra_tokens=["<2de>", "<2fr>"])
    task = TranslationTask(tokenizer, tokenizer, languages=("de", "fr"))
    config = exported("post").model.config
    model = Transformer(type(config)(**task.model_settings(), width=4, heads=1, feedforward_width=4))
    Translator(model, task).save(tmp_path / "model")
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert loaded.convert_tokens_to_ids("<2fr>") == tokenizer.id_of("<2fr>")
    assert loaded("<2de> dog", add_special_tokens=False)["input_ids"] == tokenizer.encode("<2de> dog")
    never = json.loads((tmp_path / "model" / "generation_config.json").read_text())["bad_words_ids"]
    assert never == [[tokenizer.padding_id], [tokenizer.id_of("<2de>")], [tokenizer.id_of("<2fr>")]]


def test_the_table_of_a_trained_model_keeps_its_row_of_padding_zero(tmp_path):
    """Tied, with weight decay, smoothing and dropout, in an optimiser with momentum: no update ever reaches it."""
    pairs = [(word, word[::-1]) for word in ("abc", "cab", "bca", "aabb", "ccab", "bcca", "abcc", "cbac", "acca", "bb")]
    trained = regard.train(
        {
            "model": {"name": "transformer", "width": 8, "heads": 2, "feedforward_width": 8, "encoder_layers": 1}
            | {"decoder_layers": 1, "maximum_positions": 16},
            "data": {"validation_size": 3},
            "tokenizer": {"kind": "character", "size": 20},
            "training": {
                "steps": 12,
                "label_smoothing": 0.2,
                "weight_decay": 0.1,
                "batch_tokens": 60,
                "learning_rate": 0.01,
            }
            | {"warmup": 2, "precision": "bfloat16"},
        },
        output=tmp_path / "run",
        data=pairs * 3,
    )
    model = trained.load().model
    assert not model.output.weight[model.config.padding_id].any()
    assert model.output.weight[:-1].all()
    assert model.output.weight is model.encoder.embedding.tokens.weight


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory) -> Translator:
    """Trained until its greedy tokens are decided, and not ties."""
    letters = "abcdefgh"
    draw = torch.Generator().manual_seed(3)
    words = [
        "".join(letters[i] for i in torch.randint(8, (int(torch.randint(2, 7, (), generator=draw)),), generator=draw))
        for _ in range(400)
    ]
    return regard.train(
        {
            "model": {"name": "transformer", "width": 32, "heads": 4, "feedforward_width": 64, "encoder_layers": 1}
            | {"decoder_layers": 1, "maximum_positions": 24, "norm": FAMILIES[request.param], "dropout": 0.0},
            "data": {"validation_size": 20},
            "tokenizer": {"kind": "character", "size": 20},
            "training": {"steps": 150, "batch_tokens": 800, "learning_rate": 0.01, "warmup": 30, "precision": "float32"}
            | {"evaluate_every": 1000, "save_every": 1000},
        },
        output=tmp_path_factory.mktemp("trained") / "run",
        data=[(word, word[::-1].upper()) for word in words],
    ).load()


TEXTS = ["abc", "hgfedc", "b a", "aabbc", "fed", "cafe", "dad", "xyz", "gh", "abcdefg"]
GREEDY = GenerationSettings(maximum_length=20)


@pytest.mark.slow
def test_generate_gives_our_greedy_tokens(trained, tmp_path):
    trained.save(tmp_path / "model")
    answers = trained.translate_batch(TEXTS, GREEDY)
    assert len({answer.text for answer in answers}) > 6
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    found = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model").generate(
        **tokenizer(TEXTS, padding=True, return_tensors="pt"), max_length=21
    )
    for row, answer in zip(found.tolist(), answers, strict=True):
        ids = trained.task.target_tokenizer
        written = [index for index in row if index != ids.padding_id]
        assert tuple(ids.tokens(written)) == answer.target_tokens
        assert tokenizer.decode(row, skip_special_tokens=True) == answer.text


@pytest.mark.skipif(importlib.util.find_spec("ctranslate2") is None, reason="needs ctranslate2")
def test_ctranslate2_gives_our_greedy_tokens(trained, tmp_path):
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    trained.save(tmp_path / "model")
    TransformersConverter(str(tmp_path / "model")).convert(str(tmp_path / "converted"), quantization="float32")
    answers = trained.translate_batch(TEXTS, GREEDY)
    engine = ctranslate2.Translator(str(tmp_path / "converted"), device="cpu", compute_type="float32", intra_threads=1)
    found = engine.translate_batch(
        [list(answer.source_tokens) for answer in answers],
        beam_size=1,
        max_decoding_length=20,
        return_end_token=True,
    )
    assert [tuple(result.hypotheses[0]) for result in found] == [answer.target_tokens for answer in answers]
    ended = [answer for answer in answers if answer.target_tokens[-1] == "</s>"]
    scored = engine.score_batch(
        [list(answer.source_tokens) for answer in ended], [list(answer.target_tokens[:-1]) for answer in ended]
    )
    for result, answer in zip(
        scored, ended, strict=True
    ):  # padding has no share in theirs, so it must have none in ours
        assert sum(result.log_probs) == pytest.approx(answer.log_probability, rel=1e-4, abs=1e-5)
