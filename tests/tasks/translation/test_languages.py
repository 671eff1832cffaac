"""One model, several languages: the tag in front of the source, and who may say which."""

from __future__ import annotations

import json

import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import MODELS
from regard.tasks.translation import TranslationTask, Translator, teacher_forced
from regard.text import Tokenizer

NAMES = ("de", "fr")


@pytest.fixture
def polyglot(randomize):
    """A translator into two languages; `shared` gives it one vocabulary."""

    def make(*, shared: bool = True) -> Translator:
        tags = ["<2de>", "<2fr>"]
        source = Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30, extra_tokens=tags)
        target = source if shared else Tokenizer.train(["ABCDEFG HIJ"], kind="character", size=30)
        task = TranslationTask(source, target, GenerationSettings(maximum_length=9), NAMES)
        sizes = {"embedding_width": 8, "hidden_width": 9, "attention_width": 7, "maxout_width": 6}
        config = MODELS["bahdanau"].config(**(sizes | task.model_settings()))
        return Translator(randomize(MODELS["bahdanau"].model(config), scale=2.0), task)

    return make


def test_the_tag_is_one_token_in_front(polyglot):
    model = polyglot()
    task = model.task
    (ids,) = task.encode_sources(["abc"], "fr")
    assert ids == [task.source_tokenizer.id_of("<2fr>"), *task.source_tokenizer.encode("abc")]
    answer = model.translate("abc", to="fr")
    assert answer.source_tokens == ("<2fr>", "a", "b", "c", "</s>")
    assert answer.source == "abc"
    batch = model.teacher_forced([("abc", "ab")], to="de")
    assert batch.source.ids[0, 0] == task.source_tokenizer.id_of("<2de>")


def test_the_model_reads_the_tag(polyglot):
    model = polyglot()
    german, french = (model.translate("abc", to=to).log_probability for to in NAMES)
    assert german != french
    german, french = (teacher_forced(model, [("abc", "cd")], to=to).loss for to in NAMES)
    assert german != french


def test_a_tag_in_a_users_text_is_only_text(polyglot):
    model = polyglot()
    tags = {model.task.source_tokenizer.id_of(f"<2{name}>") for name in NAMES}
    (ids,) = model.task.encode_sources(["<2fr> a"], "de")
    assert tags & set(ids) == {ids[0]}
    assert ids[0] == model.task.source_tokenizer.id_of("<2de>")


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(maximum_length=9),
        GenerationSettings(maximum_length=9, beam=4, n_best=4),
        GenerationSettings(maximum_length=9, sample=True, n_best=20, temperature=3.0),
        GenerationSettings(maximum_length=9, coverage_penalty=0.1),
    ],
    ids=["greedy", "beam", "sample", "coverage"],
)
def test_a_tag_is_never_written(polyglot, settings):
    """Not even by a model that thinks of nothing else."""
    model = polyglot()
    tags = [model.task.target_tokenizer.id_of(f"<2{name}>") for name in NAMES]
    vocabulary = model.task.target_tokenizer.size
    step = model.model.step

    def fond_of_tags(tokens, state):
        logits, after = step(tokens, state)
        return logits.index_fill(-1, torch.tensor(tags), 50.0), after

    model.model.step = fond_of_tags
    seen: list[int] = []

    class Watcher:
        def search_started(self, source): ...
        def search_finished(self, hypotheses):
            seen.extend(token for found in hypotheses for one in found for token in one.tokens)

        def predicted(self, predictions, hypotheses): ...

    with model.observing(Watcher()):
        answer = model.translate("abc", settings, to="de")
    assert seen
    assert set(seen).isdisjoint(tags)
    assert not {"<2de>", "<2fr>"} & set(answer.target_tokens)
    assert max(seen) < vocabulary


def test_without_a_shared_vocabulary_there_is_no_tag_to_write(polyglot):
    model = polyglot(shared=False)
    assert model.task.tag_ids == ()
    assert model.translate("abc", to="de").source_tokens[0] == "<2de>"


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (None, r"translates into several languages; name one with to \(--to\): de, fr"),
        ("it", "does not translate into 'it'; it translates into de, fr"),
        ("", "does not translate into ''"),
    ],
)
def test_a_missing_or_unknown_language_names_those_there_are(to, message, polyglot):
    model = polyglot()
    for call in (
        lambda: model.translate("abc", to=to),
        lambda: model.translate_batch([], to=to),
        lambda: model.teacher_forced([("a", "b")], to=to),
        lambda: regard.evaluate(model, [("a", "b")], to=to),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_a_model_of_one_language_takes_none(translator):
    with pytest.raises(InputError, match="to is 'de', but the model translates into one language only; leave it out"):
        translator().translate("abc", to="de")


def test_the_folder_keeps_the_languages(polyglot, tmp_path):
    model = polyglot()
    model.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "regard.json").read_text())["task"]["languages"] == ["de", "fr"]
    assert 'model.translate("...", to="de").text)  # or fr' in (tmp_path / "model" / "README.md").read_text()
    loaded = regard.load(tmp_path / "model")
    assert loaded.task.languages == NAMES
    assert [loaded.translate("abc", to=to).text for to in NAMES] == [model.translate("abc", to=to).text for to in NAMES]
    assert loaded.with_generation(GenerationSettings(maximum_length=2)).task.languages == NAMES


def test_a_folder_of_one_language_says_nothing_of_languages(translator, tmp_path):
    translator().save(tmp_path / "model")
    assert "languages" not in json.loads((tmp_path / "model" / "regard.json").read_text())["task"]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (["de", "it"], "names 'it', and the tokenizer has no token <2it>"),
        ("de", r"task\.languages is 'de'; it must be a list"),
        ([3], r"task\.languages is 3"),
    ],
)
def test_languages_that_do_not_fit_the_tokenizer(languages, message, polyglot, tmp_path):
    polyglot().save(tmp_path / "model")
    card = tmp_path / "model" / "regard.json"
    values = json.loads(card.read_text())
    values["task"]["languages"] = languages
    card.write_text(json.dumps(values))
    with pytest.raises(InputError, match=message) as caught:
        regard.load(tmp_path / "model")
    assert "regard.json" in str(caught.value)


def test_what_is_looked_at_is_labelled_with_the_tag(polyglot):
    model = polyglot()
    with regard.look(model) as seen:
        model.translate("ab", to="fr")
    assert seen.view(0).maps[0].key_tokens[:3] == ("<2fr>", "a", "b")
