"""Filling gaps, next sentences and pseudo-scores: against the model asked plainly, in batches of any size, and bad input."""

from __future__ import annotations

import math

import pytest
import torch

from regard.errors import InputError
from regard.layers import Tokens
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.text import Tokenizer

TEXTS = ["the [MASK] sees a cat.", "a [MASK] feeds every [MASK] horse.", "[MASK]", "The Dog likes the [MASK]!"]


def plainly(model: MaskedLanguageModel, text: str) -> torch.Tensor:
    """The probabilities at each mask of a text, read alone and at every place."""
    tokenizer = model.task.tokenizer
    ids = [tokenizer.start_id, *tokenizer.encode_marked(text), tokenizer.end_id]
    with torch.no_grad():
        logits = model.model(Tokens.pad([ids])).logits[0]
    return logits[[place for place, index in enumerate(ids) if index == tokenizer.mask_id]].softmax(dim=-1)


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_candidates_are_the_models_most_probable_tokens(language_model, name):
    model = language_model(name, next_sentence=name == "bert")
    for text in TEXTS:
        filled = model.fill(text, top=4)
        probabilities = plainly(model, text)
        assert filled.text == text
        assert len(filled.masks) == len(probabilities) == text.count("[MASK]")
        for candidates, right in zip(filled.masks, probabilities, strict=True):
            best = right.topk(4)
            assert [each.probability for each in candidates] == pytest.approx(best.values.tolist(), rel=1e-4)
            assert [each.token for each in candidates] == model.task.tokenizer.tokens(best.indices.tolist())


def test_only_targets_are_candidates_with_the_probabilities_they_have_among_all(language_model):
    model = language_model()
    text = "the [MASK] sees a [MASK]."
    every = [{each.token: each.probability for each in mask} for mask in model.fill(text, 1000).masks]
    found = model.fill(text, targets=["cat", "dog", "cat", "bird"])
    for candidates, among in zip(found.masks, every, strict=True):
        told = {each.token: each.probability for each in candidates}
        assert told == {token: pytest.approx(among[token]) for token in ("cat", "dog", "bird")}
        assert list(told.values()) == sorted(told.values(), reverse=True)
    assert [len(mask) for mask in model.fill(text, 2, targets=["cat", "dog", "bird"]).masks] == [2, 2]
    for wrong in (["zebra"], ["the cat"], ["cat", ""], [], "cat"):
        with pytest.raises(InputError, match="target"):
            model.fill(text, targets=wrong)


def test_texts_together_are_filled_as_each_alone(language_model):
    model = language_model()
    alone = [model.fill(text) for text in TEXTS]
    for batch_tokens in (10, 4096):
        for one, other in zip(model.fill_batch(TEXTS, batch_tokens=batch_tokens), alone, strict=True):
            assert one.best == other.best
            for ours, theirs in zip(one.masks, other.masks, strict=True):
                assert [each.token for each in ours] == [each.token for each in theirs]
                assert [each.probability for each in ours] == pytest.approx(
                    [each.probability for each in theirs], rel=1e-3
                )
    assert model.fill_batch([]) == []


@pytest.fixture
def telling(randomize) -> MaskedLanguageModel:
    """A model that tells `un`, then `##able`, then `York` at any mask."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "York", "in", "New", "play", ".", "!"]
    task = MaskedLanguageModellingTask(
        tokenizer=Tokenizer.from_vocabulary(pieces, lowercase=False), next_sentence=False
    )
    from regard.models import Bert, BertConfig

    model = Bert(
        BertConfig(width=4, heads=1, feedforward_width=4, layers=1, maximum_positions=20, **task.model_settings())
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.head.output.bias[[5, 6, 7]] = torch.tensor([9.0, 8.0, 7.0])
    return MaskedLanguageModel(model, task)


def test_the_whole_text_keeps_its_own_spelling(telling):
    filled = telling.fill("In  New [MASK] play [MASK]!", top=3)
    first, second = filled.masks
    assert [each.text for each in first] == [
        "In  New un play un!",
        "In  Newable play un!",  # goes on with the word before it
        "In  New York play un!",
    ]
    assert [each.text for each in second] == ["In  New un play un!", "In  New un playable!", "In  New un play York!"]
    assert filled.best == "In  New un play un!"
    assert [each.probability for each in first] == sorted([each.probability for each in first], reverse=True)


def test_rows_of_the_table_that_no_token_has_are_never_told(language_model):
    model = language_model(vocabulary=200)
    (candidates,) = model.fill("the [MASK]", top=500).masks
    assert len(candidates) == model.task.tokenizer.size
    assert sum(each.probability for each in candidates) < 1


def test_more_candidates_than_tokens_are_all_tokens(telling):
    (candidates,) = telling.fill("[MASK]", top=99).masks
    assert len(candidates) == 13
    assert sum(each.probability for each in candidates) == pytest.approx(1)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda model: model.fill("no mask"), r"text 1 \('no mask'\) has no \[MASK\]"),
        (lambda model: model.fill(""), "text 1 is empty"),
        (lambda model: model.fill("[mask]"), r"has no \[MASK\]"),
        (lambda model: model.fill("[MASK] " * 40), "text 1 has 42 tokens and the model reads 32"),
        (lambda model: model.fill(3), "give strings"),
        (lambda model: model.fill_batch("[MASK]"), "put it in a list"),
        (lambda model: model.fill("[MASK]", top=0), "top is 0"),
        (lambda model: model.score(" "), "is empty"),
        (lambda model: model.score("dog " * 40), "text 1 has 40 tokens and the model scores 1 to 30"),
        (lambda model: model.follows("", "b"), "first text 1 is empty"),
        (lambda model: model.fill("\ud800 [MASK]"), "surrogate"),
    ],
)
def test_what_cannot_be_read(language_model, ask, message):
    with pytest.raises(InputError, match=message):
        ask(language_model())


def test_following(language_model):
    model, tokenizer = language_model(), language_model().task.tokenizer
    pairs = [("the dog sees a cat.", "a bird"), ("a fish", "the old horse likes every dog.")]
    found = model.follows_batch(pairs)
    for (first, second), probability in zip(pairs, found, strict=True):
        one, other = tokenizer.encode(first), tokenizer.encode(second)
        ids = [tokenizer.start_id, *one, tokenizer.end_id, *other, tokenizer.end_id]
        segments = torch.tensor([[0] * (len(one) + 2) + [1] * (len(other) + 1)])
        with torch.no_grad():
            right = model.model(Tokens.pad([ids]), segments).next_sentence.softmax(dim=-1)[0, 0]
        assert probability == pytest.approx(right.item(), rel=1e-4)
    assert model.follows(*pairs[0]) == pytest.approx(found[0], rel=1e-4)


def test_a_model_without_that_head_is_not_asked(language_model):
    with pytest.raises(InputError, match=r"data\.next_sentence=true"):
        language_model(next_sentence=False).follows("a", "b")


def test_pseudo_scores_mask_one_token_after_another(language_model):
    model = language_model()
    tokenizer = model.task.tokenizer
    texts = ["the dog sees a cat.", "a fish", "every old horse feeds the small bird."]
    for text, score in zip(texts, model.score_batch(texts, batch_tokens=64), strict=True):
        ids = tokenizer.encode(text)
        assert list(score.tokens) == tokenizer.tokens(ids)
        for place, index in enumerate(ids):
            masked = [tokenizer.start_id, *ids, tokenizer.end_id]
            masked[place + 1] = tokenizer.mask_id
            with torch.no_grad():
                logs = model.model(Tokens.pad([masked])).logits[0, place + 1].log_softmax(dim=-1)
            assert score.log_probabilities[place] == pytest.approx(logs[index].item(), rel=1e-3, abs=1e-4)
            assert score.right[place] == (logs.argmax().item() == index)
        assert score.perplexity == pytest.approx(math.exp(-score.log_probability / len(ids)))


def test_whoever_watches_is_told(language_model):
    model, told = language_model(), []

    class Watcher:
        def search_started(self, source):
            """Nothing."""

        def search_finished(self, hypotheses):
            """Nothing."""

        def predicted(self, predictions, hypotheses):
            told.extend(predictions)

    with model.observing(Watcher()):
        model.fill_batch(TEXTS)
        model.score_batch(["a dog"])
    assert len(told) == len(TEXTS) + 1


@pytest.mark.parametrize("side", ["bfloat16", "float32"])
def test_probabilities_are_float32_whatever_the_model_is(language_model, side):
    model = language_model().to(getattr(torch, side))
    (candidates,) = model.fill("the [MASK]", top=90).masks
    assert sum(each.probability for each in candidates) == pytest.approx(1, abs=1e-5)
