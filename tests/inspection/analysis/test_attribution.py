"""Attributions of tasks' scores: what is scored, what is attributed to, and how it is shown."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from regard.errors import InputError
from regard.inspection import AttentionView
from regard.inspection.analysis import (
    SCORES,
    Attribution,
    GradientTimesInput,
    IntegratedGradients,
    ReadTokens,
    Scored,
    TargetProbability,
    TextProbability,
    TokenAttributions,
    attribute,
    attribute_scored,
)
from regard.layers import Tokens
from regard.models import MODELS, LSTMLanguageModel, LSTMLanguageModelConfig
from regard.tasks import TASKS, LanguageModel, LanguageModellingTask, TranslationTask, Translator
from regard.text import Tokenizer

PAIR = ("abcd hk", "GAFE B")


@pytest.fixture
def language_model(randomize) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30))
    config = LSTMLanguageModelConfig(embedding_width=5, hidden_width=6, layers=2, tied=False, **task.model_settings())
    return LanguageModel(randomize(LSTMLanguageModel(config), scale=1.5), task)


@pytest.fixture(params=["bahdanau", "luong", "transformer", "cho", "sutskever", "gnmt"])
def any_translator(request, translator, randomize) -> Translator:
    """Of every family there is, for all of them embed in their own way."""
    if request.param in ("bahdanau", "luong", "transformer"):
        return translator(request.param)
    task = translator("bahdanau").task
    sizes = {
        "cho": {"embedding_width": 5, "hidden_width": 6, "maxout_width": 3},
        "sutskever": {"embedding_width": 5, "hidden_width": 6, "layers": 2},
        "gnmt": {"embedding_width": 5, "hidden_width": 6, "attention_width": 4, "layers": 3},
    }[request.param]
    family = MODELS[request.param]
    return Translator(randomize(family.model(family.config(**task.model_settings(), **sizes)), scale=1.5), task)


def log_probabilities(model: Translator, source: str, target: str) -> torch.Tensor:
    """Of every target token, the end token included."""
    batch = model.teacher_forced([(source, target)])
    with torch.no_grad():
        logs = model.model(batch.source, batch.target)[0].log_softmax(dim=-1)
    return logs.gather(1, batch.labels[0].unsqueeze(1)).squeeze(1)


def test_the_score_is_the_probability_and_the_attributions_account_for_it(any_translator):
    source, target = PAIR
    wanted = log_probabilities(any_translator, source, target)
    for place, token in ((None, None), (3, "E"), (6, -1)):
        found = attribute(
            any_translator,
            TargetProbability(source=source, target=target, token=token),
            method=IntegratedGradients(steps=80),
        )
        assert found.score == pytest.approx(float(wanted.sum() if place is None else wanted[place]), abs=1e-4)
        read, fed = found.of("source"), found.of("target")
        assert "".join(read.tokens) == "abcd▁hk</s>".replace("▁", read.tokens[4])
        # Of the target only what is read before the token, the start token first.
        assert len(fed.tokens) == (len(wanted) if place is None else place + 1)
        assert found.baseline_score is not None
        assert found.error is not None
        total = float(read.scores.sum() + fed.scores.sum())
        assert total - (found.score - found.baseline_score) == pytest.approx(found.error, abs=1e-4)
        assert abs(found.error) < 0.05 * max(1.0, abs(found.score - found.baseline_score))


def test_gradients_are_those_of_the_rows_of_the_tables(any_translator):
    """Each token occurs once, so the gradient at its place is that of its row: by finite differences in double precision."""
    any_translator.to(torch.float64)
    source, target = "abd", "GAF"
    question = TargetProbability(source=source, target=target)
    found = attribute(any_translator, question, method=GradientTimesInput())
    tables = {}
    for name, side in (("source", any_translator.model.encoder), ("target", any_translator.model.decoder)):
        inner = side.embedding
        tables[name] = inner.tokens if hasattr(inner, "tokens") else inner
    task = any_translator.task
    ids = {
        "source": [*task.source_tokenizer.encode(source), task.source_tokenizer.end_id],
        "target": [task.target_tokenizer.start_id, *task.target_tokenizer.encode(target)],
    }
    for name, table in tables.items():
        for place, index in enumerate(ids[name]):
            row = table.weight.data[index].clone()
            sums = []
            for step in (1e-5, -1e-5):  # along the row itself: gradient times input, summed
                table.weight.data[index] = row * (1 + step)
                sums.append(float(log_probabilities(any_translator, source, target).sum()))
            table.weight.data[index] = row
            assert float(found.of(name).scores[place]) == pytest.approx((sums[0] - sums[1]) / 2e-5, abs=2e-4, rel=1e-3)


def test_a_sentences_attribution_is_the_sum_of_its_tokens(translator):
    """Along one path gradients are linear in the score."""
    model = translator("transformer")
    source, target = PAIR
    count = len(model.task.target_tokenizer.encode(target)) + 1
    method = IntegratedGradients(steps=12)
    whole = attribute(model, TargetProbability(source=source, target=target), method=method, inputs=["source"])
    parts = [
        attribute(model, TargetProbability(source=source, target=target, token=place), method=method, inputs=["source"])
        for place in range(count)
    ]
    np.testing.assert_allclose(sum(part.of("source").values for part in parts), whole.of("source").values, atol=1e-4)
    assert whole.method == "integrated gradients (12 steps, gauss-legendre, baseline zeros)"
    view = Attribution.matrix(parts, "source")
    assert whole.method in view.note
    assert view.maps[0].weights.shape == (1, count, len(whole.of("source").tokens))
    assert view.maps[0].query_tokens[-1] == "</s>"
    with pytest.raises(InputError, match="no attributions"):
        Attribution.matrix([], "source")
    other = attribute(model, TargetProbability(source="ab", target="A"), method=method)
    with pytest.raises(InputError, match="different sequences"):
        Attribution.matrix([*parts, other], "source")
    with pytest.raises(InputError, match="did you mean 'source'"):
        whole.of("sources")


def test_what_is_not_attributed_to_stays_as_it_is(translator):
    model = translator("bahdanau")
    question = TargetProbability(source="abc", target="GA", token=1)
    found = {
        to: attribute(model, question, inputs=None if to == "both" else [to]) for to in ("both", "source", "target")
    }
    assert [part.name for part in found["both"].read] == ["source", "target"]
    assert [part.name for part in found["target"].read] == ["target"]
    baselines = {to: each.baseline_score for to, each in found.items()}
    assert len(set(baselines.values())) == 3  # other things were taken away
    assert len({round(each.score, 6) for each in found.values()}) == 1
    with pytest.raises(InputError, match="did you mean 'source'"):
        attribute(model, question, inputs=["sorce"])
    with pytest.raises(InputError, match="inputs is empty"):
        attribute(model, question, inputs=[])


def test_how_many_steps_are_taken_together_changes_nothing(any_translator):
    question = TargetProbability(source="abcab", target="GAG", token=1)
    wanted, *others = (
        attribute(any_translator, question, method=IntegratedGradients(steps=7, tokens_at_once=count))
        for count in (1, 20, 10_000)
    )
    for other in others:
        np.testing.assert_allclose(other.of("source").values, wanted.of("source").values, atol=1e-5)
        assert other.score == pytest.approx(wanted.score, abs=1e-5)


def test_a_shared_table_is_told_apart_by_who_reads_it(translator):
    tokenizer = Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30)
    task = TranslationTask(tokenizer, tokenizer)
    shared = translator("transformer", sharing="all", **task.model_settings())
    model = Translator(shared.model, task)
    assert model.model.encoder.embedding.tokens is model.model.decoder.embedding.tokens
    # Source and target are the same ids, but for the start token.
    found = attribute(model, TargetProbability(source="abc", target="abc"), method=IntegratedGradients(steps=150))
    assert found.of("source").tokens == ("a", "b", "c", "</s>")
    assert found.of("target").tokens == ("<pad>", "a", "b", "c")
    assert not np.allclose(found.of("source").values[:3], found.of("target").values[1:])
    assert found.error is not None
    assert found.baseline_score is not None
    assert abs(found.error) < 0.1 * max(1.0, abs(found.score - found.baseline_score))


def test_without_a_target_it_is_the_models_own_translation(any_translator):
    answer = any_translator.translate("abc ki")
    found = attribute(any_translator, TargetProbability(source="abc ki"), method=GradientTimesInput())
    assert found.score == pytest.approx(answer.log_probability, abs=1e-4)
    last = attribute(any_translator, TargetProbability(source="abc ki", token=-1), method=GradientTimesInput())
    assert last.target == answer.target_tokens[-1]
    assert last.of("target").tokens[1:] == answer.target_tokens[:-1]


def test_of_a_model_of_several_languages_the_tag_is_attributed_to_too(translator):
    source = Tokenizer.train(["abc"], kind="character", size=20, extra_tokens=["<2de>", "<2fr>"])
    target = translator("bahdanau").task.target_tokenizer
    task = TranslationTask(source, target, languages=("de", "fr"))
    model = Translator(translator("bahdanau", **task.model_settings()).model, task)
    found = attribute(model, TargetProbability(source="ab", target="A", to="fr"), method=GradientTimesInput())
    assert found.of("source").tokens == ("<2fr>", "a", "b", "</s>")
    with pytest.raises(InputError, match="name one with to"):
        attribute(model, TargetProbability(source="ab", target="A"))


def test_a_language_models_token_comes_from_what_was_read_before(language_model):
    text = "abcd hk"
    wanted = language_model.score(text)
    for place, token in ((None, None), (2, 2), (3, "d"), (7, -1)):
        found = attribute(language_model, TextProbability(text=text, token=token), method=IntegratedGradients(steps=80))
        score = wanted.log_probability if place is None else wanted.log_probabilities[place]
        assert found.score == pytest.approx(score, abs=1e-4)
        read = found.of("text")
        assert read.tokens == ("</s>", *wanted.tokens)[: (len(text) if place is None else place) + 1]
        assert found.error is not None
        assert abs(found.error) < 0.02
        assert found.baseline_score is not None
        assert float(read.scores.sum()) == pytest.approx(found.score - found.baseline_score, abs=0.02)
    assert found.target == "</s>"


def test_looking_leaves_no_trace(translator):
    model = translator("transformer")
    before = model.translate("abc")
    attribute(model, TargetProbability(source="abc"))
    assert model.translate("abc") == before
    assert all(parameter.grad is None for parameter in model.model.parameters())
    assert all(not part._forward_hooks for part in model.model.modules())


def test_scores_are_of_tasks_and_a_task_takes_no_other(translator, language_model):
    without_token_vectors = {
        "captioning",
        "few_shot",
        "copying",
        "bidirectional_language_modelling",
        "image_classification",
    }
    assert set(SCORES) == set(TASKS) - without_token_vectors
    with pytest.raises(InputError, match="a model for translation is asked for a TargetProbability, not for a TextP"):
        attribute(translator("bahdanau"), TextProbability(text="a"))
    with pytest.raises(InputError, match="a model for language modelling is asked for a TextProbability"):
        attribute(language_model, TargetProbability(source="a"))


class Classifier(nn.Module):
    """A bag of words; what a later task may be."""

    def __init__(self, *, looks_up: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.output = nn.Linear(4, 3)
        self.looks_up = looks_up

    def forward(self, read: Tokens) -> torch.Tensor:
        x = self.table(read.ids) if self.looks_up else self.table(read.ids + 0)
        return self.output((x * read.valid.unsqueeze(-1)).sum(dim=1).tanh())


@dataclass(frozen=True)
class ClassScore:
    ids: tuple[int, ...]
    label: int

    def of(self, model: Classifier) -> Scored:
        return Scored(
            module=model,
            quantity="logit",
            target=str(self.label),
            read=(ReadTokens(name="text", ids=self.ids, texts=tuple(map(str, self.ids))),),
            score=lambda read: model(read[0])[:, self.label],
        )


def test_another_task_joins_by_saying_what_is_scored_and_read(randomize):
    model = randomize(Classifier()).eval()
    found = attribute_scored(ClassScore((3, 5, 5), 2).of(model), method=IntegratedGradients(steps=60))
    assert found.title == "logit(2)"
    assert found.score == pytest.approx(model(Tokens.pad([[3, 5, 5]]))[0, 2].item())
    assert found.baseline_score == pytest.approx(model.output.bias[2].item())
    assert abs(found.error or 1.0) < 1e-3
    assert found.of("text").scores[1] == pytest.approx(found.of("text").scores[2])  # order does not matter to it
    other = randomize(Classifier(looks_up=False)).eval()
    with pytest.raises(InputError, match="looks up text in no nn"):
        attribute_scored(ClassScore((3, 5, 5), 2).of(other))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (TargetProbability(source="  "), "the source is empty"),
        (TargetProbability(source="ab", target="AB", token=3), "token 3: the target has 3 tokens"),
        (TargetProbability(source="ab", target="AB", token="Q"), "token 'Q' is not there; the target is A B </s>"),
        (TargetProbability(source="ab", target="ABA", token="A"), "occurs 2 times, at 0, 2"),
        (TargetProbability(source="ab", target="A", to="de"), "one language only"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(translator, question, message):
    with pytest.raises(InputError, match=message):
        attribute(translator("bahdanau"), question)


def test_a_text_longer_than_the_positions_is_refused(language_model):
    language_model.model.maximum_length = 4
    with pytest.raises(InputError, match="5 tokens are to be read where the model has 4 positions"):
        attribute(language_model, TextProbability(text="abcd"))
    attribute(language_model, TextProbability(text="abcdef", token=2), method=GradientTimesInput())  # read that far


def made(**changes) -> Attribution:
    values = np.array([[1.0, 1.0], [-0.25, -0.25], [0.0, 0.125]], dtype=np.float32)
    settings = {
        "quantity": "log p",
        "target": "Hund",
        "method": "integrated gradients",
        "read": (TokenAttributions(name="source", tokens=("▁[bold]", "\x1b[31m", "."), values=values),),
        "score": -0.5,
        "baseline_score": -2.125,
        "error": 0.01,
    }
    return Attribution(**(settings | changes))


def test_it_is_shown_as_a_map_as_text_and_as_json(tmp_path):
    found = made()
    assert found.of("source").scores.tolist() == [2.0, -0.5, 0.125]
    assert found.largest(2) == [("source", "▁[bold]", 2.0), ("source", "\x1b[31m", -0.5)]
    view = found.view()
    assert view.title == "log p(Hund)"
    assert view.map("source").weights.tolist() == [[[2.0, -0.5, 0.125]]]
    assert AttentionView.from_json(view.to_json()) == view
    value = json.loads(json.dumps(found.to_json()))
    assert value["read"] == [{"name": "source", "tokens": ["▁[bold]", "\x1b[31m", "."], "scores": [2.0, -0.5, 0.125]}]
    assert (value["quantity"], value["target"], value["error"]) == ("log p", "Hund", 0.01)
    for colour in (None, "truecolor"):
        console = Console(width=100, file=io.StringIO(), color_system=colour, force_terminal=colour is not None)
        with console.capture() as shown:
            console.print(found)
        text = shown.get()
        assert "log p(Hund)" in text
        assert "␣[bold]" in text  # neither markup
        assert "\x1b[31m" not in text  # nor a terminal's escapes act
        assert "largest: ␣[bold] +2" in text
        assert ("\x1b[" in text) is (colour is not None)


def test_a_poor_integral_says_so():
    assert "more steps" not in made().summary
    assert made(error=0.2).summary.endswith("take more steps")
    assert made(baseline_score=None, error=None).summary == "integrated gradients; score -0.5"
    assert "more steps" not in made(baseline_score=-0.5, error=1e-5).summary  # rounding, beside a difference of nothing
