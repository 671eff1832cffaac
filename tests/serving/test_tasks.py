"""The tasks as `huggingface_hub` asks for them: its client's own requests, read, answered and parsed by it again."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import numpy as np
import pytest
import torch
from huggingface_hub import InferenceClient
from huggingface_hub.inference._generated import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import MODELS, NTM, Bert, BertConfig, NTMConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.vit import ViT, ViTConfig
from regard.serving.engine import Engine
from regard.serving.messages import Answer, Ask, Failure
from regard.serving.tasks import OF_TASK, ROUTES, chosen, decode, routes_of
from regard.tasks import TASKS
from regard.tasks.captioning import Captioner, CaptioningTask
from regard.tasks.classification import ClassificationTask, Classifier
from regard.tasks.copying import Copier, CopyingTask
from regard.tasks.denoising import Denoiser, DenoisingTask
from regard.tasks.image_classification import ImageClassificationTask, ImageClassifierPredictor
from regard.tasks.images import ImageSize
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.language_task import LanguageModellingTask
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.tasks.multi_label import MultiLabelClassifier, MultiLabelTask
from regard.tasks.question_answering import QuestionAnswerer, QuestionAnsweringTask
from regard.tasks.regression import MultiOutputRegressor, MultiOutputTask, RegressionTask, Regressor
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.tasks.span_corruption import FILLING, SpanCorruptionTask, SpanFiller
from regard.tasks.tagging import Tagger, TaggingTask
from regard.tasks.text_to_text import TextToText, TextToTextTask
from regard.tasks.translation import TranslationTask, Translator
from regard.text import Tokenizer

TEXT = "the cat sat on a mat and Ann Lee saw it in Paris"
T5 = {"width": 12, "heads": 3, "head_width": 4, "feedforward_width": 20, "encoder_layers": 1, "decoder_layers": 2}


def tokenizer() -> Tokenizer:
    return Tokenizer.train([TEXT, "who sat ?"] * 4, kind="bert", size=90, lowercase=True)


def sentinels() -> Tokenizer:
    return Tokenizer.train([f"summarize: to de {TEXT}"], kind="word", size=40, sentinels=4)


Make = Callable[[Callable[..., Any]], Any]


def encoder(randomize: Any, predictor: Any, task: Any) -> Any:
    config = BertConfig(
        width=12, heads=3, feedforward_width=10, layers=2, maximum_positions=20, **task.model_settings()
    )
    return predictor(randomize(Bert(config), scale=2.0), task)


def pair(randomize: Any, predictor: Any, task: Any) -> Any:
    return predictor(randomize(MODELS["t5"].model(MODELS["t5"].config(**T5, **task.model_settings())), 2.0), task)


def classifier(randomize: Any, **changes: Any) -> Classifier:
    given = {"classes": ("no", "yes", "perhaps"), "maximum_length": 20, "pairs": None} | changes
    return encoder(randomize, Classifier, ClassificationTask(tokenizer=tokenizer(), **given))


def labeller(randomize: Any) -> MultiLabelClassifier:
    task = MultiLabelTask(tokenizer=tokenizer(), classes=("a", "b"), maximum_length=20, pairs=False)
    return encoder(randomize, MultiLabelClassifier, task)


def rater(randomize: Any) -> Regressor:
    return encoder(randomize, Regressor, RegressionTask(tokenizer=tokenizer(), maximum_length=20, pairs=None, mean=3.0))


def several_rater(randomize: Any) -> MultiOutputRegressor:
    task = MultiOutputTask(
        tokenizer=tokenizer(),
        names=("joy", "fear"),
        means=(1.0, 2.0),
        spreads=(1.0, 3.0),
        maximum_length=20,
        pairs=False,
    )
    return encoder(randomize, MultiOutputRegressor, task)


def tagger(randomize: Any, **changes: Any) -> Tagger:
    task = TaggingTask(
        tokenizer=tokenizer(), **({"tags": ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), "maximum_length": 16} | changes)
    )
    made = encoder(randomize, Tagger, task)
    with torch.no_grad():  # else what all words share outweighs what tells them apart
        for name, parameter in made.model.named_parameters():
            if name.endswith(("bias", "segments.weight")):
                parameter.zero_()
        for layer in made.model.layers:
            layer.attention.output.weight.div_(3)
        made.model.head.output.weight.mul_(2)
    return made


def answerer(randomize: Any, unanswerable: bool | None = False) -> QuestionAnswerer:
    sizes = {"maximum_length": 16, "stride": 4, "maximum_question": 5, "maximum_answer": 4}
    return encoder(
        randomize, QuestionAnswerer, QuestionAnsweringTask(tokenizer=tokenizer(), unanswerable=unanswerable, **sizes)
    )


def masked(randomize: Any) -> MaskedLanguageModel:
    return encoder(
        randomize, MaskedLanguageModel, MaskedLanguageModellingTask(tokenizer=tokenizer(), maximum_length=20)
    )


def translator(randomize: Any, languages: tuple[str, ...] = ()) -> Translator:
    extra = [f"<2{name}>" for name in languages]
    source = Tokenizer.train(["abcdefgh ijkl"], kind="character", size=30, extra_tokens=extra)
    target = Tokenizer.train(["ABCDEFG HIJ"], kind="character", size=30)
    task = TranslationTask(source, target, GenerationSettings(maximum_length=9), languages)
    sizes = {"embedding_width": 8, "hidden_width": 9, "attention_width": 7, "maxout_width": 6}
    config = MODELS["bahdanau"].config(**sizes, **task.model_settings())
    return Translator(randomize(MODELS["bahdanau"].model(config), scale=2.0), task)


def writer(randomize: Any, prefixes: dict[str, str] | None = None) -> TextToText:
    prefixes = {"": "", "de": "to de: ", "short": "summarize: "} if prefixes is None else prefixes
    task = TextToTextTask(sentinels(), GenerationSettings(maximum_length=6), prefixes=prefixes, maximum_source=16)
    return pair(randomize, TextToText, task)


def filler(randomize: Any) -> SpanFiller:
    return pair(randomize, SpanFiller, SpanCorruptionTask(sentinels()))


def denoiser(randomize: Any) -> Denoiser:
    return pair(randomize, Denoiser, DenoisingTask(tokenizer()))


def sentence_encoder(randomize: Any, **changes: Any) -> SentenceEncoder:
    task = SentenceEmbeddingTask(
        tokenizer=tokenizer(), maximum_length=16, prompts={"query": "who sat ? "}, **({"normalise": False} | changes)
    )
    return encoder(randomize, SentenceEncoder, task)


def viewer(randomize: Any) -> ImageClassifierPredictor:
    task = ImageClassificationTask(size=ImageSize(height=8, width=8), classes=tuple("abcdefg"))
    config = ViTConfig(**task.model_settings(), patch=4, width=8, heads=2, layers=1, feedforward_width=8)
    return ImageClassifierPredictor(randomize(ViT(config)), task)


def captioner(randomize: Any) -> Captioner:
    words = Tokenizer.train([TEXT], kind="word", size=30)
    task = CaptioningTask(words, ImageSize(height=8, width=12), GenerationSettings(maximum_length=7))
    sizes: dict[str, Any] = {"convolutions": (4, 6), "feature_width": 5, "embedding_width": 6, "hidden_width": 7}
    config = ShowAttendAndTellConfig(**task.model_settings(), **sizes, attention_width=3)
    return Captioner(randomize(ShowAttendAndTell(config), 2.0), task)


def copier(randomize: Any) -> Copier:
    task = CopyingTask(3)
    sizes = {"slots": 5, "slot_width": 4, "controller_width": 6}
    return Copier(randomize(NTM(NTMConfig(**task.model_settings(), **sizes))).eval(), task)


def language_model(randomize: Any) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train([TEXT], kind="character", size=60))
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 1, "maximum_positions": 30}
    return LanguageModel(randomize(MODELS["gpt2"].model(MODELS["gpt2"].config(**sizes, **task.model_settings()))), task)


MADE: dict[str, Any] = {
    "classification": classifier,
    "multi_label_classification": labeller,
    "regression": rater,
    "multi_output_regression": several_rater,
    "tagging": tagger,
    "question_answering": answerer,
    "masked_language_modelling": masked,
    "translation": translator,
    "text_to_text": writer,
    "span_corruption": filler,
    "denoising": denoiser,
    "sentence_embedding": sentence_encoder,
    "image_classification": viewer,
    "captioning": captioner,
    "copying": copier,
    "language_modelling": language_model,
}


def png(width: int = 9, height: int = 10) -> bytes:
    pixels = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


def ask(predictor: Any, body: Any, route: str | None = None) -> Any:
    """What is answered to a body, as it arrives at the other end."""
    raw = isinstance(body, bytes)
    sent = body if raw else json.dumps(body).encode()
    taken = route_for(predictor, sent) if route is None else ROUTES[route]
    assert taken in routes_of(predictor)
    request = decode(taken, sent, "" if raw else "application/json")
    found = json.loads(json.dumps(taken.answer(predictor, request), allow_nan=False))
    assert msgspec.to_builtins(msgspec.convert(found, taken.shape)) == found
    return found


def route_for(predictor: Any, body: bytes) -> Any:
    """The route that a body is taken by at the model's own address."""
    return chosen([route.name for route in routes_of(predictor)], body)


@pytest.fixture
def client(monkeypatch) -> Callable[..., InferenceClient]:
    """A client of Hugging Face's whose requests are answered by a predictor in this process."""
    monkeypatch.setattr("huggingface_hub.inference._providers.hf_inference.get_token", lambda: None)

    def make(predictor: Any, route: str | None = None) -> InferenceClient:
        def post(parameters: Any, *, stream: bool = False) -> bytes:
            raw = parameters.json is None
            body = bytes(parameters.data) if raw else json.dumps(parameters.json).encode()
            taken = route_for(predictor, body) if route is None else ROUTES[route]
            request = decode(taken, body, parameters.headers.get("content-type", "" if raw else "application/json"))
            answer = json.dumps(taken.answer(predictor, request)).encode()
            assert msgspec.to_builtins(msgspec.json.decode(answer, type=taken.shape)) == json.loads(answer)
            return answer

        made = InferenceClient(model="http://127.0.0.1:9/served", provider="hf-inference")
        monkeypatch.setattr(made, "_inner_post", post)
        return made

    return make


# --- routes ---


@pytest.mark.parametrize("name", MADE)
def test_a_route_is_chosen_by_the_task(name, randomize):
    predictor = MADE[name](randomize)
    assert predictor.task.name == name
    assert isinstance(predictor, TASKS[name].predictor)
    wanted = OF_TASK[name][:1] if name == "classification" else OF_TASK[name]  # its classes say nothing of entailment
    assert tuple(route.name for route in routes_of(predictor))[: len(wanted)] == wanted


def test_what_has_no_route_is_refused_by_the_name_of_its_task(randomize):
    predictor = classifier(randomize)
    predictor.task = type("Own", (), {"name": "multiple_choice"})()
    with pytest.raises(
        InputError, match="a model for the task multiple_choice cannot be served; choose one for classif"
    ):
        routes_of(predictor)


def test_every_task_of_the_table_is_one_of_the_package():
    assert set(OF_TASK) <= set(TASKS.packaged)
    assert {name for names in OF_TASK.values() for name in names} == set(ROUTES)


def test_requests_are_read_without_torch_and_the_package_without_what_serves():
    code = (
        "import sys, regard, regard.tasks; found = {'msgspec', 'huggingface_hub'} & set(sys.modules)\n"
        "import regard.serving.tasks; print(sorted(found), {'torch', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[] set()"


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    ("what", "asked"), [("tokenize", {"text": "cat", "special": False}), ("detokenize", {"ids": [3]})]
)
def test_tokens_are_told_of_every_task_or_refused_in_words(name, what, asked, randomize):
    engine = Engine({name: MADE[name](randomize)})
    assert engine.take(Ask(key=1, model=name, what=what, given=asked, client=["a", ""])) == []
    (reply,) = engine.turn()
    refused = {
        "translation": "side: translation has a tokenizer for each side",
        "image_classification": "model: image_classification reads no text",
        "copying": "model: copying reads no text",
    }
    if name in refused:
        assert isinstance(reply, Failure)
        assert reply.blame == "request"
        assert reply.message.startswith(refused[name])
    else:
        assert isinstance(reply, Answer)


def tokens_told(model: Any, what: str, **asked: Any) -> Any:
    engine = Engine({"model": model})
    assert engine.take(Ask(key=1, model="model", what=what, given={"special": False, **asked}, client=["a", ""])) == []
    (reply,) = engine.turn()
    return reply.value if isinstance(reply, Answer) else reply.message


def test_a_translator_tells_the_tokens_of_either_side(randomize):
    model = translator(randomize)
    source, target = model.task.source_tokenizer, model.task.target_tokenizer
    assert tokens_told(model, "tokenize", text="cab", side="source")["ids"] == source.encode("cab")
    assert tokens_told(model, "tokenize", text="CAB", side="target")["ids"] == target.encode("CAB")
    assert tokens_told(model, "detokenize", ids=source.encode("cab"), side="source") == "cab"
    assert tokens_told(model, "detokenize", ids=target.encode("CAB"), side="target") == "CAB"
    model.task = replace(model.task, target_tokenizer=source)  # one vocabulary: no side needs to be named
    for side in (None, "source", "target"):
        assert tokens_told(model, "tokenize", text="cab", side=side)["ids"] == source.encode("cab")


def test_a_side_of_what_has_one_tokenizer_is_refused_by_name(randomize):
    assert tokens_told(tagger(randomize), "tokenize", text="cat", side="source").startswith("side: model is no transl")


# --- what each task answers ---


def test_classes_are_told_with_their_probabilities(randomize, client):
    model = classifier(randomize)
    said = model.classify(TEXT)
    found = client(model).text_classification(TEXT)
    assert {each.label: each.score for each in found} == pytest.approx(said.probabilities)
    assert found[0].label == said.label
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    two = client(model).text_classification(TEXT, top_k=2, function_to_apply="softmax")
    assert [each.label for each in two] == [each.label for each in found[:2]]
    several = ask(model, {"inputs": [TEXT, "cat", {"text": "cat", "text_pair": "mat"}], "parameters": None})
    assert [each[0]["label"] for each in several] == [
        each.label for each in model.classify_batch([TEXT, "cat", ("cat", "mat")])
    ]
    assert all(len(types.TextClassificationOutputElement.parse_obj_as_list(each)) == 3 for each in several)


@pytest.mark.parametrize("pairs", [True, False])
def test_a_model_of_pairs_takes_pairs_alone_and_one_of_texts_texts(randomize, pairs):
    model = classifier(randomize, pairs=pairs)
    one, two = {"text": "cat"}, {"text": "cat", "text_pair": "a mat"}
    right, wrong = (two, one) if pairs else (one, two)
    text = ("cat", "a mat") if pairs else "cat"
    assert ask(model, {"inputs": right})[0][0]["score"] == pytest.approx(model.classify(text).probability)
    with pytest.raises(InputError, match=r"inputs: the model reads (two texts|one text)"):
        ask(model, {"inputs": wrong})


def test_labels_and_numbers_come_as_scores_too(randomize, client):
    model = labeller(randomize)
    found = client(model).text_classification("cat", function_to_apply="sigmoid")
    assert {each.label: each.score for each in found} == pytest.approx(model.classify("cat").probabilities)
    one = rater(randomize)
    (number,) = client(one).text_classification("cat", function_to_apply="none")
    assert (number.label, number.score) == ("value", pytest.approx(one.rate("cat").value))
    several = several_rater(randomize)
    numbers = client(several).text_classification("cat")
    assert {each.label: each.score for each in numbers} == pytest.approx(several.rate("cat").values)
    for each, other in ((model, "softmax"), (one, "sigmoid"), (several, "softmax"), (classifier(randomize), "none")):
        with pytest.raises(InputError, match=f"parameters.function_to_apply: is '{other}', and the model's is"):
            client(each).text_classification("cat", function_to_apply=other)


def test_entities_stand_where_they_are_told_to(randomize, client):
    model = tagger(randomize)
    said = model.tag(TEXT)
    assert len(said.entities) > 1
    found = client(model).token_classification(TEXT)
    assert [(each.entity_group, each.word, each.start, each.end, each.score) for each in found] == [
        (each.type, each.text, each.start, each.end, each.probability) for each in said.entities
    ]
    assert all(TEXT[each.start : each.end] == each.word for each in found)
    kinds = {each.entity_group for each in found}
    kept = client(model).token_classification(TEXT, ignore_labels=["O", min(kinds)])
    assert {each.entity_group for each in kept} == kinds - {min(kinds)}
    many = ask(model, {"inputs": [TEXT, "cat"]})
    assert len(many) == 2
    assert many[0] == ask(model, {"inputs": TEXT})


def test_tokens_are_told_and_aggregated_where_that_is_asked_for(randomize, client):
    model = tagger(randomize)
    tokens = client(model).token_classification(TEXT, aggregation_strategy="none", ignore_labels=[])
    assert [each.word for each in tokens] == model.task.tokenizer.tokens(model.task.tokenizer.encode(TEXT))
    kept = client(model).token_classification(TEXT, aggregation_strategy="none")
    assert kept == [each for each in tokens if each.entity != "O"]
    groups = client(model).token_classification(TEXT, aggregation_strategy="simple", ignore_labels=[])
    assert {each.entity_group for each in groups} == {each.entity.rpartition("-")[2] for each in tokens}
    assert (groups[0].start, groups[-1].end) == (0, len(TEXT))
    with pytest.raises(InputError, match="with an aggregation_strategy the model reads 16 at once; leave that out"):
        client(model).token_classification(f"{TEXT} {TEXT}", aggregation_strategy="max")


def test_tags_that_mark_no_spans_are_told_word_by_word(randomize, client):
    model = tagger(randomize, tags=("NN", "VB", "DT"), scheme=None)
    said = model.tag(TEXT)
    found = client(model).token_classification(TEXT)
    assert [(each.entity_group, each.word) for each in found] == list(zip(said.tags, said.words, strict=True))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stride": 2}, "parameters.stride: is 2, and is not supported here; leave it out"),
        ({"ignore_labels": ["LOK", "O"]}, "parameters.ignore_labels: the model has no 'LOK'; did you mean 'LOC'"),
        ({"ignore_labels": ["LOC"]}, "add 'O'"),
        ({"aggregation_strategy": "none", "ignore_labels": ["LOC"]}, "the model has no 'LOC'; did you mean"),
    ],
)
def test_what_taggers_do_not_follow(randomize, client, parameters, message):
    with pytest.raises(InputError, match=message):
        client(tagger(randomize)).token_classification(TEXT, **parameters)


def test_answers_are_passages_of_the_context(randomize, client):
    model = answerer(randomize)
    said = model.answer("who sat ?", TEXT, n_best=3)
    one = client(model).question_answering("who sat ?", TEXT)
    assert isinstance(one, types.QuestionAnsweringOutputElement)
    assert (one.answer, one.start, one.end, one.score) == (said.text, said.start, said.end, said.probability)
    three = client(model).question_answering("who sat ?", TEXT, top_k=3, align_to_words=False)
    assert [(each.answer, each.score) for each in three] == [(each.text, each.probability) for each in said.passages]
    assert all(TEXT[each.start : each.end] == each.answer for each in three)
    short = client(model).question_answering("who sat ?", TEXT, top_k=9, max_answer_len=1)
    other = QuestionAnswerer(model.model, replace(model.task, maximum_answer=1)).answer("who sat ?", TEXT, n_best=9)
    assert [each.answer for each in short] == [each.text for each in other.passages]
    assert model.task.maximum_answer == 4


@pytest.mark.parametrize("unanswerable", [True, None])
def test_that_there_is_no_answer_is_the_empty_one(randomize, client, unanswerable):
    # Of a short text, which is one window: of several each has to hold no answer.
    threshold = None if unanswerable else 0.0
    models = (answerer(randomize, unanswerable) for _ in range(200))
    model = next(each for each in models if each.answer("who sat ?", "a cat", threshold=threshold).start is None)
    believed = model.answer("who sat ?", "a cat", threshold=threshold, n_best=2)
    asked = client(model)
    one = asked.question_answering("who sat ?", "a cat", handle_impossible_answer=True)
    assert (one.answer, one.start, one.end, one.score) == ("", 0, 0, believed.probability)
    two = asked.question_answering("who sat ?", "a cat", handle_impossible_answer=True, top_k=2)
    assert [each.answer for each in two] == ["", believed.passages[0].text]
    some = asked.question_answering("who sat ?", "a cat", handle_impossible_answer=False)
    assert some.answer == believed.passages[0].text
    assert asked.question_answering("who sat ?", "a cat").answer == model.answer("who sat ?", "a cat").text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"align_to_words": True}, "parameters.align_to_words: is True, and is not supported"),
        (
            {"handle_impossible_answer": True},
            "parameters.handle_impossible_answer: is true, and the model always answers",
        ),
        ({"doc_stride": 3}, "parameters.doc_stride: is 3, and is not supported"),
        ({"max_question_len": 3}, "parameters.max_question_len: is 3"),
        ({"max_seq_len": 30}, "parameters.max_seq_len: is 30"),
        ({"top_k": 0}, "parameters.top_k: expected int >= 1"),
    ],
)
def test_what_answerers_do_not_follow(randomize, client, parameters, message):
    with pytest.raises(InputError, match=message):
        client(answerer(randomize)).question_answering("who sat ?", TEXT, **parameters)


def test_masks_are_filled_with_tokens_of_the_vocabulary(randomize, client):
    model = masked(randomize)
    text = "The cat sat on a [MASK] and Ann"
    said = model.fill(text, 5)
    found = client(model).fill_mask(text)
    assert [(each.score, each.sequence) for each in found] == [(each.probability, each.text) for each in said.masks[0]]
    for each, candidate in zip(found, said.masks[0], strict=True):
        assert model.task.tokenizer.tokens([each.token]) == [candidate.token]
        assert each.token_str in (candidate.token, model.task.tokenizer.decode([each.token]))
    assert len(client(model).fill_mask(text, top_k=7)) == 7
    both = ask(model, {"inputs": "the [MASK] sat on [MASK]", "parameters": {"top_k": 2}})
    assert [len(each) for each in both] == [2, 2]
    first, second = ask(model, {"inputs": [text, "[MASK] sat"]})
    assert len(second) == 5
    assert [each["token"] for each in first] == [each.token for each in found]


def test_targets_are_the_only_candidates(randomize, client):
    model = masked(randomize)
    every = {each.token: each.probability for each in model.fill("a [MASK] sat", 1000).masks[0]}
    found = client(model).fill_mask("a [MASK] sat", targets=["Cat", "mat", "mat"])
    assert {each.token_str: each.score for each in found} == {name: every[name] for name in ("cat", "mat")}
    assert found[0].score > found[1].score
    assert len(client(model).fill_mask("a [MASK] sat", targets=["cat", "mat"], top_k=1)) == 1
    for wrong in ("zebra", "the cat", "##"):
        with pytest.raises(InputError, match="is not one token of the vocabulary"):
            client(model).fill_mask("a [MASK] sat", targets=["cat", wrong])


def test_translations_follow_the_settings_asked_for(randomize, client):
    model = translator(randomize)
    assert client(model).translation("abc").translation_text == model.translate("abc").text
    asked = {"num_beams": 3, "max_new_tokens": 4, "length_penalty": 1.5, "early_stopping": True}
    own = replace(
        model.task.generation,
        beam=3,
        maximum_length=4,
        length_penalty=1.5,
        length_normalisation="power",
        early_stopping=3,
        search_end="estimate",
    )
    texts = ["abc", "l", "hgfedcba", "ab ab"]
    found = ask(model, {"inputs": texts, "parameters": {"generate_parameters": asked, "truncation": "do_not_truncate"}})
    assert [each.translation_text for each in types.TranslationOutput.parse_obj_as_list(found)] == [
        each.text for each in model.translate_batch(texts, own)
    ]
    assert found != ask(model, {"inputs": texts})
    drawn = {"do_sample": True, "temperature": 2.0, "top_k": 0, "top_p": 0.9, "seed": 4, "max_length": 6}
    own = replace(model.task.generation, sample=True, temperature=2.0, top_p=0.9, seed=4, maximum_length=5)
    assert (
        client(model).translation("abc", generate_parameters=drawn).translation_text == model.translate("abc", own).text
    )


def test_what_writes_other_texts_may_be_asked_for_summaries(randomize, client):
    model = translator(randomize)
    found = client(model, "summarization").summarization("abc", generate_parameters={"num_beams": 2})
    assert found.summary_text == model.translate("abc", replace(model.task.generation, beam=2)).text
    with pytest.raises(InputError, match=r"parameters\.truncation: is 'only_first', and texts are not truncated"):
        client(model, "summarization").summarization("abc", truncation="only_first")
    assert [route.name for route in routes_of(translator(randomize, ("german", "french")))] == ["translation"]


def test_a_language_is_asked_for_by_its_name(randomize, client):
    model = translator(randomize, ("german", "french"))
    asked = client(model)
    for name in ("german", "french"):
        assert (
            asked.translation("abc", src_lang="", tgt_lang=name).translation_text
            == model.translate("abc", to=name).text
        )
    for wrong, message in (
        ({}, "parameters.tgt_lang: is missing; give one of german, french"),
        (
            {"src_lang": "", "tgt_lang": "frensh"},
            "parameters.tgt_lang: the model cannot be asked for 'frensh'; did you mean 'french'",
        ),
        (
            {"src_lang": "en", "tgt_lang": "german"},
            "parameters.src_lang: is 'en', and the model does not use it",
        ),
        ({"src_lang": "", "tgt_lang": "german", "truncation": "only_first"}, "parameters.truncation: is 'only_first'"),
    ):
        with pytest.raises(InputError, match=message):
            asked.translation("abc", **wrong)
    with pytest.raises(InputError, match=r"parameters.tgt_lang: the model cannot be asked for 'de'; leave it out"):
        client(translator(randomize)).translation("abc", src_lang="", tgt_lang="de")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"temperature": 0.5}, "generate_parameters.temperature: changes nothing without do_sample"),
        ({"seed": 5}, "generate_parameters.seed: changes nothing without do_sample"),
        ({"length_penalty": 2.0}, "generate_parameters.length_penalty: changes nothing without num_beams above 1"),
        ({"early_stopping": "never"}, "generate_parameters.early_stopping: changes nothing without num_beams above 1"),
        ({"max_length": 5, "max_new_tokens": 5}, "generate_parameters.max_length: is the same limit as max_new_tokens"),
        ({"max_new_tokens": 5000}, "parameters.generate_parameters.max_new_tokens: expected int <= 1024"),
        ({"num_beams": 5000}, "parameters.generate_parameters.num_beams: expected int <= 64"),
        ({"do_sample": True, "temperature": -1}, "parameters.generate_parameters: generation.temperature"),
        ({"do_sample": True, "num_beams": 2}, "parameters.generate_parameters: generation.sample"),
        ({"min_new_tokens": 50}, "parameters.generate_parameters: generation.minimum_length"),
        ({"typical_p": 0.5}, "parameters.generate_parameters.typical_p: is 0.5, and is not supported here"),
        ({"num_return_sequences": 2}, "num_return_sequences: is 2, and is not supported"),
        (
            {"max_tokens": 2},
            "parameters.generate_parameters: there is no field 'max_tokens'; did you mean 'max_new_tokens'",
        ),
    ],
)
def test_settings_that_cannot_be_followed(randomize, client, asked, message):
    for model in (translator(randomize), writer(randomize)):
        with pytest.raises(InputError, match=message):
            ask(model, {"inputs": "the cat", "parameters": {"generate_parameters": asked}})


def test_no_sampling_is_asked_of_a_model_that_samples(randomize):
    model = translator(randomize)
    drawing = replace(model.task.generation, sample=True, temperature=3.0, top_k=5)
    model.task = replace(model.task, generation=drawing)
    body = {"inputs": "abc", "parameters": {"generate_parameters": {"do_sample": False, "num_beams": 2}}}
    plain = GenerationSettings(maximum_length=9, beam=2)
    assert ask(model, body) == [{"translation_text": model.translate("abc", plain).text}]


def test_a_model_that_writes_and_its_summaries(randomize, client):
    model = writer(randomize)
    assert [route.name for route in routes_of(model)] == ["text2text-generation", "text-generation", "summarization"]
    summary = client(model, "summarization").summarization("the cat sat")
    assert summary.summary_text == model.generate("the cat sat", part="short").text
    (written,) = ask(model, {"inputs": "to de: the cat"})
    assert written == {"generated_text": model.generate("to de: the cat").text}
    long = " ".join([TEXT] * 3)
    with pytest.raises(InputError, match=r"text 1 has [0-9]+ tokens and the model reads 16"):
        client(model, "summarization").summarization(long)
    cut = client(model, "summarization").summarization(long, truncation="longest_first")
    assert cut.summary_text == model.generate(long, part="short", cut=True).text
    for parameters, message in (
        ({"truncation": "only_second"}, "parameters.truncation: is 'only_second'"),
        ({"clean_up_tokenization_spaces": True}, "clean_up_tokenization_spaces: is True, and is not supported"),
    ):
        with pytest.raises(InputError, match=message):
            client(model, "summarization").summarization("the cat", **parameters)


def test_a_model_that_summarizes_alone_is_served_so(randomize, client):
    model = writer(randomize, {"": "summarize: "})
    assert [route.name for route in routes_of(model)] == ["summarization", "text2text-generation", "text-generation"]
    found = ask(model, {"inputs": ["the cat sat", "a mat"]})
    assert found == [{"summary_text": each.text} for each in model.generate(["the cat sat", "a mat"])]
    assert [route.name for route in routes_of(writer(randomize, {"": "to de: "}))] == [
        "text2text-generation",
        "text-generation",
    ]


def test_bits_are_copied_as_text(randomize):
    model = copier(randomize)
    copied = model.copy([[1, 0, 1], [0, 1, 1]])
    wanted = " ".join("".join(map(str, bits)) for bits in copied.bits)
    assert ask(model, {"inputs": "101 011"}) == [{"generated_text": wanted}]
    for body, message in (
        ({"inputs": "101 21"}, "zeros and ones"),
        ({"inputs": "10"}, "give 3 zeros and ones"),
        (
            {"inputs": "101", "parameters": {"generate_parameters": {"num_beams": 2}}},
            "parameters: a copying model has no generation settings",
        ),
    ):
        with pytest.raises(InputError, match=message):
            ask(model, body)


def test_gaps_are_filled_in_the_text(randomize):
    model = filler(randomize)
    text = "the <extra_id_0> sat on <extra_id_1>"
    asked = {"num_beams": 2, "max_new_tokens": 8}
    own = replace(FILLING, beam=2, maximum_length=8)
    assert ask(model, {"inputs": text, "parameters": {"generate_parameters": asked}}) == [
        {"generated_text": model.fill(text, own).best}
    ]
    with pytest.raises(InputError, match=r"parameters.truncation"):
        ask(model, {"inputs": text, "parameters": {"truncation": "only_first"}})


def test_a_text_with_masks_is_written_whole(randomize):
    model = denoiser(randomize)
    asked = {"num_beams": 2, "max_new_tokens": 8}
    own = replace(model.usual, beam=2, maximum_length=8)
    text = "the [MASK] sat"
    found = ask(model, {"inputs": text, "parameters": {"generate_parameters": asked}})
    assert found == [{"generated_text": model.fill(text, own).best}]


def test_vectors_of_one_text_and_of_several(randomize, client):
    model = sentence_encoder(randomize)
    expected = model.embed([TEXT, "cat"])
    assert client(model).feature_extraction(TEXT) == pytest.approx(expected[0])
    assert client(model).feature_extraction([TEXT, "cat"]) == pytest.approx(expected)
    assert client(model).feature_extraction(["cat"]).shape == (1, 12)
    unit = client(model).feature_extraction([TEXT, "cat"], normalize=True)
    assert unit == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    normed = sentence_encoder(randomize, normalise=True)
    plain = client(normed).feature_extraction("cat", normalize=False)
    assert plain == pytest.approx(normed.pooled(normalise=False).embed(["cat"])[0])
    assert np.linalg.norm(plain) != pytest.approx(1.0)
    asked = client(model).feature_extraction(
        "cat", prompt_name="query", encoding_format="float", truncation_direction="right"
    )
    assert asked == pytest.approx(model.embed(["cat"], prompt="query")[0])


def test_texts_are_compared_at_either_address(randomize, client):
    model = sentence_encoder(randomize)
    expected = model.similarity(["cat"], [TEXT, "a mat", "cat"])[0]
    for route in (None, "sentence-similarity"):
        found = client(model, route).sentence_similarity("cat", [TEXT, "a mat", "cat"])
        assert found == pytest.approx(expected.tolist())
    assert found[2] == pytest.approx(1.0)
    body = {"inputs": {"source_sentence": "cat", "sentences": ["mat"]}, "normalize": True}
    with pytest.raises(InputError, match="inputs"):
        ask(model, body)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dimensions": 4}, "dimensions: is 4, and is not supported"),
        ({"encoding_format": "base64"}, "encoding_format: is 'base64'"),
        ({"truncation_direction": "left"}, "truncation_direction: is 'left'"),
        ({"prompt_name": "queri"}, "prompt_name: the model has no prompt 'queri'; did you mean 'query'"),
    ],
)
def test_what_encoders_do_not_follow(randomize, client, parameters, message):
    with pytest.raises(InputError, match=message):
        client(sentence_encoder(randomize)).feature_extraction("cat", **parameters)


def test_images_are_classified_from_bytes_and_from_base64(randomize, client, tmp_path):
    model = viewer(randomize)
    (tmp_path / "it.png").write_bytes(png())
    said = model.classify(str(tmp_path / "it.png"))
    found = client(model).image_classification(png())
    assert len(found) == 5
    assert found[0].label == said.label
    assert all(each.score == pytest.approx(said.probabilities[each.label]) for each in found)
    assert client(model).image_classification(str(tmp_path / "it.png")) == found
    body = {"inputs": base64.b64encode(png()).decode(), "parameters": {"top_k": 7, "function_to_apply": "softmax"}}
    every = types.ImageClassificationOutputElement.parse_obj_as_list(ask(model, body))
    assert {each.label: each.score for each in every} == pytest.approx(said.probabilities)
    with pytest.raises(InputError, match=r"parameters.function_to_apply: is 'sigmoid'"):
        ask(model, body | {"parameters": {"function_to_apply": "sigmoid"}})


def test_images_are_captioned(randomize, client, tmp_path):
    model = captioner(randomize)
    (tmp_path / "it.png").write_bytes(png())
    assert client(model).image_to_text(png()).generated_text == model.caption(str(tmp_path / "it.png")).text
    body = {"inputs": base64.b64encode(png()).decode()}
    for parameters in ({"max_new_tokens": 3}, {"generation_parameters": {"max_new_tokens": 3}}):
        found = ask(model, body | {"parameters": parameters})
        own = replace(model.task.generation, maximum_length=3)
        assert found == [{"generated_text": model.caption(str(tmp_path / "it.png"), own).text}]
    twice = {"max_new_tokens": 3, "generation_parameters": {"max_new_tokens": 3}}
    with pytest.raises(InputError, match=r"parameters.max_new_tokens: is given twice"):
        ask(model, body | {"parameters": twice})
    with pytest.raises(InputError, match=r"generation_parameters.use_cache: is False, and is not supported"):
        ask(model, body | {"parameters": {"generation_parameters": {"use_cache": False}}})


# --- what is refused ---


OF_TEXTS = [name for name in ROUTES if not name.startswith("image")]


@pytest.mark.parametrize("name", OF_TEXTS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body: is not JSON .it is empty"),
        (b"{", "the body: is not JSON"),
        (b'{"inputs": "\xff"}', "the body: is not JSON .byte 12 is not UTF-8"),
        (b'{"inputs": "a", "inputs": "b"}', "the key 'inputs' is there twice"),
        (b'{"inputs": NaN}', "the body: is not JSON"),
        (b'{"inputs": "\\ud800"}', "the body: is not JSON"),
        (b"[" * 5000, "the body: is not JSON"),
        (b"[1]", "the body: holds a list"),
        (b"{}", "the body: the field 'inputs' is missing; add it"),
        (b'{"inputs": 3}', "^inputs: expected "),
        (b'{"inputs": null}', "^inputs: expected "),
        (b'{"input": "a"}', "the body: there is no field 'input'; did you mean 'inputs'"),
    ],
)
def test_a_body_that_is_no_request(name, body, message):
    with pytest.raises(InputError, match=message):
        decode(ROUTES[name], body, "application/json; charset=utf-8")


@pytest.mark.parametrize("name", OF_TEXTS)
def test_texts_come_as_json_alone(name):
    for kind in ("", "text/plain", "image/png", "application/x-www-form-urlencoded"):
        with pytest.raises(InputError, match=r"the content type is '.*'; send application/json"):
            decode(ROUTES[name], b'{"inputs": "a"}', kind)


EMPTY: dict[str, list[Any]] = {
    "question-answering": [{"question": " ", "context": "a"}, {"question": "a", "context": ""}],
    "zero-shot-classification": ["", " \t"],
    "sentence-similarity": [
        {"source_sentence": "", "sentences": ["a"]},
        {"source_sentence": "a", "sentences": ["a", "\n"]},
        {"source_sentence": "a", "sentences": []},
    ],
}


@pytest.mark.parametrize("name", [name for name in OF_TEXTS if name != "text-generation"])  # which begins a text
def test_an_empty_text_is_refused_where_it_stands(name):
    for inputs in EMPTY.get(name, ["", " \t", ["a", ""], []]):
        with pytest.raises(
            InputError, match=r"^inputs[\w\[\].]*: (is empty; give a text|expected array of length >= 1)"
        ):
            decode(ROUTES[name], json.dumps({"inputs": inputs}).encode(), "application/json")


LONG = " ".join([TEXT] * 5)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("classification", LONG),
        ("multi_label_classification", LONG),
        ("regression", ["cat", LONG]),
        ("multi_output_regression", LONG),
        ("question_answering", {"question": LONG, "context": "cat"}),
        ("masked_language_modelling", f"{LONG} [MASK]"),
        ("text_to_text", LONG),
        ("sentence_embedding", ["cat", LONG]),
        ("sentence_embedding", {"source_sentence": "cat", "sentences": ["a", LONG]}),
    ],
)
def test_a_text_that_is_too_long_is_refused_without_a_warning(randomize, name, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"has [0-9]+ tokens and the model (reads|has positions for) [0-9]+"):
            ask(MADE[name](randomize), {"inputs": inputs})


def test_a_long_text_is_tagged_and_cut_for_a_vector_where_that_is_asked_for(randomize, client):
    assert ask(tagger(randomize), {"inputs": LONG})[-1]["end"] <= len(LONG)
    model = sentence_encoder(randomize)
    assert client(model).feature_extraction(LONG, truncate=True) == pytest.approx(model.embed([LONG])[0])


@pytest.mark.parametrize("name", ["image-classification", "image-to-text"])
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"", "", "the body is empty; send the bytes of an image"),
        (png(), "text/html", "the content type is 'text/html'; send an image"),
        (b"{}", "application/json", "the body: the field 'inputs' is missing"),
        (b'{"inputs": ""}', "application/json", "inputs: expected bytes of length >= 1"),
        (b'{"inputs": "http://a.example/cat.png"}', "application/json", "inputs: invalid base64 encoded string"),
        (b'{"inputs": ["aGk="]}', "application/json", "inputs: expected bytes"),
    ],
)
def test_what_is_no_image_at_all(name, body, kind, message):
    with pytest.raises(InputError, match=message):
        decode(ROUTES[name], body, kind)


@pytest.mark.parametrize("kind", ["", "image/png", "application/octet-stream", "IMAGE/JPEG; q=1"])
def test_an_image_is_taken_whatever_it_is_called(randomize, kind):
    route = ROUTES["image-classification"]
    model = viewer(randomize)
    assert route.answer(model, decode(route, png(), kind)) == ask(model, png())


# --- whatever arrives ---


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
words = (
    st.sampled_from([TEXT, "a [MASK] sat", "the <extra_id_0> sat", "who sat ?", "german", "query", "O", LONG])
    | st.text()
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 12),
    float: st.floats(-0.5, 2.0),
    str: words,
    bytes: st.binary(max_size=9).map(lambda content: base64.b64encode(content or png()).decode()),
    type(None): st.none(),
    Any: st.none() | st.none() | anything,
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """What may stand in JSON for a value of a type, limits aside; fields that need not be there are there now and then."""
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is Annotated:
        return values_of(get_args(hint)[0])
    if get_origin(hint) is list:
        return st.lists(values_of(get_args(hint)[0]), min_size=1, max_size=3)
    if isinstance(hint, type):
        fields = msgspec.structs.fields(hint)
        given = {each.required: {} for each in fields}
        for each in fields:
            given[each.required][each.name] = values_of(each.type)
        return st.fixed_dictionaries(given.get(True, {}), optional=given.get(False, {}))
    return st.one_of(*map(values_of, get_args(hint)))


@st.composite
def bodies(draw: Any, request: type) -> bytes:
    """Objects that are requests, or nearly."""
    made = draw(values_of(request))
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.sampled_from(sorted(made)))
        made[place] = draw(anything)
    return json.dumps(made).encode()


PREDICTORS: dict[str, Any] = {}


def predictor_for(name: str) -> Any:
    """One for each task, made once: it is not changed by what it is asked."""
    if name not in PREDICTORS:
        generator = torch.Generator().manual_seed(7)

        def redraw(module: torch.nn.Module, scale: float = 1.0) -> torch.nn.Module:
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.copy_(scale * torch.randn(parameter.shape, generator=generator) / 4)
            return module

        PREDICTORS[name] = MADE[name](redraw)
    return PREDICTORS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MADE if name != "language_modelling"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_sent_is_answered_or_refused_in_a_sentence(name, data):
    predictor = predictor_for(name)
    route = data.draw(st.sampled_from(routes_of(predictor)))
    body = data.draw(st.binary(max_size=40) if data.draw(st.integers(0, 9)) == 0 else bodies(route.request))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of characters that the tokenizer does not know
            said = json.dumps(route.answer(predictor, decode(route, body, "application/json")), allow_nan=False)
    except InputError as error:
        said = str(error)
    assert said
    assert "\n" not in said


@pytest.mark.parametrize("name", ROUTES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_request_survives_being_sent_on_as_plain_data(name, data):
    try:
        request = decode(ROUTES[name], data.draw(bodies(ROUTES[name].request)), "application/json")
    except InputError:
        return
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(request))
    assert msgspec.convert(sent, ROUTES[name].request) == request


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "ICO", "EPS"])
@settings(max_examples=40)
@given(data=st.data())
def test_a_damaged_image_is_answered_or_refused_in_a_sentence(form, data):
    stream = io.BytesIO()
    Image.open(io.BytesIO(png(16, 16))).save(stream, format=form)
    content = bytearray(stream.getvalue())
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    ):
        content[place] = value
    content = content[: data.draw(st.integers(1, len(content)))]
    try:
        said = f"inputs: {ask(predictor_for('image_classification'), bytes(content))}"
    except InputError as error:
        said = str(error)
    assert said.startswith("inputs: ")
