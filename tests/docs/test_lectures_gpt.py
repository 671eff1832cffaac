"""The proofs behind the rows of docs/lectures.md that speak of GPT: one small test for each mistake, named after its row."""

from __future__ import annotations

import json

import pytest
import torch

import regard
from regard.layers import Tokens
from regard.models import GPT, GPT2, GPT3, Bert, BertConfig, GPT2Config, GPT3Config, GPTConfig
from regard.prompting import Example, Template, evaluate_prompts
from regard.text import Tokenizer

SIZES = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 16, "layers": 2, "maximum_positions": 8}
TOKENS = Tokens.pad([[0, 4, 5, 6, 7]])


@pytest.fixture
def gpt2(randomize) -> GPT2:
    return randomize(GPT2(GPT2Config(**SIZES))).eval()


def changed(model, told) -> torch.Tensor:
    """Which places of the output feel a change of the token in the middle."""
    other = TOKENS.ids.clone()
    other[0, 2] = 9
    before, after = told(model(TOKENS)), told(model(Tokens(other, TOKENS.valid)))
    return (before != after).any(dim=-1)[0]


def test_b09_gpt_reads_from_the_left_and_bert_both_ways(gpt2, randomize):
    """Both compute all positions at once; what each position may see is another matter."""
    assert changed(gpt2, lambda logits: logits).tolist() == [False, False, True, True, True]
    bert = randomize(Bert(BertConfig(**SIZES))).eval()
    assert changed(bert, lambda encoded: encoded.hidden).all()


def test_b21_training_tells_every_token_in_one_pass_and_there_is_no_source(gpt2):
    logits = gpt2(TOKENS)
    assert logits.shape == (1, 5, 11)  # one pass, five predictions
    state, one_by_one = gpt2.start(1), []
    for token in TOKENS.ids[0]:
        step, state = gpt2.step(token[None], state)
        one_by_one.append(step)
    torch.testing.assert_close(torch.stack(one_by_one, dim=1), logits)
    assert not any("cross" in name for name, _ in gpt2.named_modules())


def test_b26_gpt_chooses_among_pieces_of_words_and_not_among_words(tmp_path):
    """Its output has a place for each piece; what is no piece is told as several, so no list of words is needed."""
    merges = ["c a", "ca t</w>", "u n", "b e", "be l"]
    letters = "abcelnituv"
    pieces = [
        "<unk>",
        *letters,
        *(f"{letter}</w>" for letter in letters),
        *(merge.replace(" ", "") for merge in merges),
    ]
    (tmp_path / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("\n".join(merges))
    tokenizer = Tokenizer.load(tmp_path)
    assert [tokenizer.tokens(tokenizer.encode(word)) for word in ("cat", "unbelt")] == [
        ["cat</w>"],
        ["un", "bel", "t</w>"],
    ]
    with torch.device("meta"):
        published = GPT(GPTConfig())
    assert published.embedding.tokens.num_embeddings == 478 + 40_000


def test_b37_gpt3_is_a_decoder_alone(randomize):
    """No encoder makes a vector for it: its parts are those of GPT-2, and it gives logits of the next token."""
    model = randomize(GPT3(GPT3Config(band=None, **SIZES))).eval()
    assert not any("encoder" in name for name, _ in model.named_modules())
    twin = GPT2(GPT2Config(**SIZES)).eval()
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(TOKENS), model(TOKENS))


NOUNS = {
    "dog": "Hund",
    "bird": "Vogel",
    "tree": "Baum",
    "stone": "Stein",
    "moon": "Mond",
    "wolf": "Wolf",
    "fish": "Fisch",
}
VERBS = {"sleeps": "schläft", "waits": "wartet", "falls": "fällt", "sings": "singt", "stands": "steht"}
PAIRS = [(f"the {noun} {verb}", f"der {NOUNS[noun]} {VERBS[verb]}") for noun in NOUNS for verb in VERBS]


def test_b25_telling_a_text_well_is_not_doing_a_task_that_is_put_as_text(tmp_path):
    """Two models of one size on what neither was shown: one read sentences of both languages, the other translations."""
    recipe = {
        "task": "language_modelling",
        "model": {"name": "gpt2", "width": 48, "heads": 4, "feedforward_width": 96, "layers": 2, "maximum_positions": 24,
                  "dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.1},
        "data": {"length": 9},
        "tokenizer": {"kind": "word", "size": 60},
        "training": {"steps": 150, "batch_tokens": 300, "precision": "float32", "learning_rate": 3e-3, "warmup": 10},
    }  # fmt: skip
    held_out, rest = PAIRS[::6], [pair for i, pair in enumerate(PAIRS) if i % 6]
    sentences = [text for pair in rest for text in pair]
    read = {
        "sentences": [f"{one} {other}" for one, other in zip(sentences, reversed(sentences), strict=True)],
        "translations": [f"{english} = {german}" for english, german in rest],
    }
    template = Template(task="translation", question="{english} =", right="german", maximum_length=4)
    questions = [Example({"english": english, "german": german}) for english, german in held_out]
    right = {}
    for name, texts in read.items():
        model = regard.train(recipe, output=tmp_path / name, data=texts * 4, validation=texts[:5]).load()
        found = evaluate_prompts(model, template, questions)
        right[name] = sum(each.answer == each.right[0] for each in found.answers) / len(questions)
        assert model.score(texts[0]).perplexity < 5
    assert right["sentences"] == 0
    assert right["translations"] >= 0.5
