"""Scores of words in templates against what the model's own filling of gaps says."""

from __future__ import annotations

import math

import pytest
import torch

from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.text import Tokenizer
from regard.word_embeddings.bias.lists import NamedWords
from regard.word_embeddings.bias.templates import template_bias

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "she", "he", "is", "a", "nurse", "sol", "##dier", ".", "they"]
ENDS = (NamedWords(name="female", words=("she",)), NamedWords(name="male", words=("he", "soldier")))


@pytest.fixture(scope="module")
def model():
    task = MaskedLanguageModellingTask(tokenizer=Tokenizer.from_vocabulary(PIECES, lowercase=True), next_sentence=False)
    torch.manual_seed(3)
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 20, "deviation": 0.7}
    return MaskedLanguageModel(Bert(BertConfig(**sizes, **task.model_settings())), task)


def _log(model, text, word, place) -> float:
    return math.log(next(each.probability for each in model.fill(text, top=99).masks[place] if each.token == word))


@pytest.mark.parametrize(
    ("template", "asked", "hidden", "place"),
    [
        ("[TARGET] is a [ATTRIBUTE].", "[MASK] is a {}.", "[MASK] is a {}.", 0),
        ("a [ATTRIBUTE] is [TARGET]", "a {} is [MASK]", "a {} is [MASK]", -1),
    ],
)
def test_scores_are_log_probabilities_less_those_of_the_masked_attribute(model, template, asked, hidden, place):
    found = template_bias(model, [template], ENDS, ["nurse", "soldier"])
    for attribute, masks in (("nurse", "[MASK]"), ("soldier", "[MASK] [MASK]")):
        for word in ("she", "he"):
            plain = _log(model, asked.format(attribute), word, 0) - _log(model, hidden.format(masks), word, place)
            assert found.scores[attribute][word] == pytest.approx(plain, abs=1e-5)
        scores = found.scores[attribute]
        assert found.differences[attribute] == pytest.approx(scores["she"] - scores["he"])
    assert found.left_out == ("soldier",)  # two tokens
    assert "another template" in found.to_json()["cautions"][0]


def test_several_templates_are_averaged(model):
    templates = ["[TARGET] is a [ATTRIBUTE].", "is [TARGET] a [ATTRIBUTE]"]
    both = template_bias(model, templates, ENDS, ["nurse"]).differences["nurse"]
    alone = [template_bias(model, [each], ENDS, ["nurse"]).differences["nurse"] for each in templates]
    # Differences of log-probabilities of several units, in float32.
    assert both == pytest.approx(sum(alone) / 2, abs=5e-6)


def test_what_cannot_be_asked_is_refused(model):
    with pytest.raises(InputError, match=r"it needs .TARGET. and .ATTRIBUTE., once each"):
        template_bias(model, ["he is a [ATTRIBUTE]"], ENDS, ["nurse"])
    with pytest.raises(InputError, match="male: none of the words is a single token"):
        template_bias(
            model, ["[TARGET] is a [ATTRIBUTE]"], (ENDS[0], NamedWords(name="male", words=("soldier",))), ["nurse"]
        )
    with pytest.raises(InputError, match="0 templates"):
        template_bias(model, [], ENDS, ["nurse"])
