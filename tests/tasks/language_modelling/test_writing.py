"""What a language model writes: the model asked anew for every token, whoever else is in the batch, up to the stop."""

from __future__ import annotations

import itertools

import pytest
import torch

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import CausalStack, Tokens
from regard.models import (
    GPT2,
    GPT3,
    GPT2Config,
    GPT3Config,
    Llama,
    LlamaConfig,
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
)
from regard.quantization import InferenceDecoder
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.tasks.language_writing import StopText
from regard.text import Tokenizer

TEXTS = ["the cat sat on the mat.", "a dog ran over the hill.", "rain falls on the plain and on the hill."] * 4
PROMPTS = ["the cat", "", "a dog ran over the hill. rain", "on", "the"]
POSITIONS = 40


def built(name: str, randomize) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train(TEXTS, kind="bpe", size=60))
    filled = task.model_settings()
    gpt = {"width": 12, "heads": 3, "feedforward_width": 16, "layers": 2, "maximum_positions": POSITIONS, **filled}
    model = {
        "gpt2": lambda: GPT2(GPT2Config(**gpt)),
        "gpt3": lambda: GPT3(GPT3Config(band=4, **gpt)),
        "lstm": lambda: LSTMLanguageModel(LSTMLanguageModelConfig(embedding_width=8, hidden_width=9, **filled)),
    }[name]()
    return LanguageModel(randomize(model, scale=1.0), task)


@pytest.fixture(params=["gpt2", "gpt3", "lstm"])
def model(request, randomize) -> LanguageModel:
    return built(request.param, randomize)


def plainly(model: LanguageModel, prompt: str, count: int) -> list[int]:
    """The most probable token each time, the whole text read anew for each."""
    tokenizer = model.task.tokenizer
    ids = [tokenizer.end_id, *tokenizer.encode(prompt)]
    written: list[int] = []
    while len(written) < count:
        logits = model.model(Tokens.pad([[*ids, *written]]))[0, -1].clone()
        logits[[tokenizer.padding_id, tokenizer.unknown_id]] = -torch.inf
        written.append(int(logits.argmax()))
        if written[-1] == tokenizer.end_id:
            break
    return written


def test_greedy_writing_is_the_model_asked_anew_for_every_token(model):
    settings = GenerationSettings(maximum_length=12)
    together = model.generate(PROMPTS, settings)
    for prompt, written in zip(PROMPTS, together, strict=True):
        expected = plainly(model, prompt, 12)
        assert list(written.tokens) == model.task.tokenizer.tokens(expected)
        assert written.prompt == prompt
        assert written.finished == (expected[-1] == model.task.tokenizer.end_id)
        logs = model.model(Tokens.pad([[0, *model.task.tokenizer.encode(prompt), *expected]])).log_softmax(-1)[0]
        start = len(model.task.tokenizer.encode(prompt))
        right = [logs[start + t, token].item() for t, token in enumerate(expected)]
        assert written.log_probabilities == pytest.approx(right, abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(maximum_length=9),
        GenerationSettings(maximum_length=9, sample=True, seed=5, temperature=1.5),
        GenerationSettings(maximum_length=9, sample=True, n_best=3, top_k=20),
        GenerationSettings(maximum_length=9, beam=3, n_best=2),
    ],
    ids=["greedy", "sampled", "samples", "beam"],
)
def test_neither_the_batch_nor_its_size_changes_what_is_written(model, settings):
    whole = model.generate(PROMPTS, settings)
    for batch_size in (1, 2):
        assert [each.text for each in model.generate(PROMPTS, settings, batch_size=batch_size)] == [
            each.text for each in whole
        ]
    alone = [model.generate(prompt, settings, first=place) for place, prompt in enumerate(PROMPTS)]
    assert [(each.text, each.alternatives) for each in alone] == [(each.text, each.alternatives) for each in whole]


def test_the_seed_decides_samples_and_places_have_draws_of_their_own(model):
    def texts(seed: int) -> list[str]:
        return [
            each.text
            for each in model.generate(["the"] * 4, GenerationSettings(sample=True, seed=seed, maximum_length=12))
        ]

    assert texts(1) == texts(1) != texts(2)
    assert len(set(texts(1))) > 1


def test_samples_of_one_prompt_read_it_once(model, monkeypatch):
    read: list[int] = []  # texts, by each call that reads prompts

    def counted(name):
        reads = getattr(model.model, name)
        monkeypatch.setattr(model.model, name, lambda texts, state: (read.append(len(texts)), reads(texts, state))[1])

    # Decoders of GPT's family read texts without padding, other models a batch.
    counted("read_texts" if isinstance(model.model, CausalStack) else "prefill")
    settings = GenerationSettings(maximum_length=6, sample=True, n_best=8)
    found = model.generate("the cat sat", settings)
    assert len(found.alternatives) == 7
    assert read == [1]


def test_the_stream_is_what_is_written_and_nothing_in_it_changes_again(model):
    for settings, stop in itertools.product(
        (GenerationSettings(maximum_length=20), GenerationSettings(maximum_length=20, sample=True, seed=2)),
        ((), (" t",), ("zz", "e")),
    ):
        for prompt in PROMPTS:
            pieces = list(model.stream(prompt, settings, stop=stop))
            assert "".join(pieces) == model.generate(prompt, settings, stop=stop).text
            assert all(pieces)


def test_a_stop_ends_the_text_wherever_its_borders_lie_among_the_tokens(model):
    settings = GenerationSettings(maximum_length=30, sample=True, seed=4, temperature=2.0)
    for prompt in PROMPTS:
        whole = model.generate(prompt, settings)
        for start in range(0, max(len(whole.text) - 3, 0), 3):
            stop = whole.text[start : start + 3]
            written = model.generate(prompt, settings, stop=(stop,))
            assert written.text == whole.text[: whole.text.index(stop)]
            assert written.finished
            assert len(written.tokens) <= len(whole.tokens)


def test_an_empty_stop_and_stops_of_a_beam_are_refused(model):
    with pytest.raises(InputError, match="a stop string is empty"):
        model.generate("a", stop=("",))
    with pytest.raises(InputError, match="set beam to 1"):
        model.generate("a", GenerationSettings(beam=2), stop=("x",))
    with pytest.raises(InputError, match="only one text can be streamed"):
        list(model.stream("a", GenerationSettings(beam=2)))


def test_what_may_become_a_stop_is_held_back():
    stop = StopText(Tokenizer.train(TEXTS, kind="bpe", size=60), ("</end>", "ab"))
    assert [stop.held_back(text) for text in ("x", "xa", "x</e", "x</", "</end", "b")] == [0, 1, 3, 2, 5, 0]
    assert stop.cut("a</end>bab") == "a"


def test_writing_ends_where_the_positions_do_and_longer_prompts_are_refused(randomize):
    model = built("gpt2", randomize)
    settings = GenerationSettings(maximum_length=200, minimum_length=200)
    for prompt in ("the cat", "a dog ran over the hill."):
        written = model.generate(prompt, settings)
        read = 1 + len(model.task.tokenizer.encode(prompt))
        assert len(written.tokens) == POSITIONS + 1 - read
        assert not written.finished
    both = model.generate(["the cat", "a dog ran over the hill."], settings)
    assert [each.text for each in both] == [model.generate(each.prompt, settings).text for each in both]
    with pytest.raises(InputError, match=r"prompt 2 has \d+ tokens and the model has positions for 40"):
        model.generate(["a", "on the mat " * 30], settings)


def test_the_unknown_token_and_padding_are_never_written(model):
    settings = GenerationSettings(maximum_length=30, sample=True, temperature=50.0)
    for written in model.generate(["the"] * 8, settings):
        assert not {"<unk>", "<pad>"} & set(written.tokens)


PENALTIES = GenerationSettings(
    maximum_length=10, repetition_penalty=1.7, presence_penalty=0.3, frequency_penalty=0.6, logit_bias=(("the", 1.5),)
)


def test_penalties_count_the_prompt_or_what_was_written_and_biases_are_named_by_text(model):
    tokenizer = model.task.tokenizer
    for prompt, written in zip(PROMPTS, model.generate(PROMPTS, PENALTIES), strict=True):
        ids = [tokenizer.end_id, *tokenizer.encode(prompt)]
        new: list[int] = []
        while len(new) < 10 and tokenizer.end_id not in new:
            logits = model.model(Tokens.pad([[*ids, *new]]))[0, -1].clone()
            logits[[tokenizer.padding_id, tokenizer.unknown_id]] = -torch.inf
            logits[tokenizer.encode("the")[0]] += 1.5
            for token in {*ids, *new}:
                logits[token] = logits[token] * 1.7 if logits[token] < 0 else logits[token] / 1.7
            for token in new:
                logits[token] -= 0.6
            for token in set(new):
                logits[token] -= 0.3
            new.append(int(logits.argmax()))
        assert list(written.tokens) == tokenizer.tokens(new)
        assert "".join(model.stream(prompt, PENALTIES)) == written.text
    plain = model.generate(PROMPTS, GenerationSettings(maximum_length=10))
    assert [each.text for each in plain] != [each.text for each in model.generate(PROMPTS, PENALTIES)]


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(maximum_length=9),
        GenerationSettings(maximum_length=9, beam=3),
        GenerationSettings(maximum_length=9, sample=True, temperature=2.0, repetition_penalty=1.5),
    ],
    ids=["greedy", "beam", "sampled"],
)
def test_the_most_probable_tokens_are_the_models_own_whatever_was_chosen(model, settings):
    tokenizer = model.task.tokenizer
    for written in model.generate(PROMPTS, settings, top=4):
        ids = [tokenizer.end_id, *tokenizer.encode(written.prompt)]
        assert len(written.top) == len(written.tokens)
        for t, place in enumerate(written.top):
            logs = model.model(Tokens.pad([ids]))[0, -1].log_softmax(-1)
            expected = logs.topk(4)
            assert [token for token, _ in place] == tokenizer.tokens(expected.indices.tolist())
            assert [number for _, number in place] == pytest.approx(expected.values.tolist(), abs=1e-4)
            ids.append(tokenizer.find(written.tokens[t]))
            assert logs[ids[-1]].item() == pytest.approx(written.log_probabilities[t], abs=1e-4)
    assert model.generate("the", settings).top == ()
    with pytest.raises(InputError, match="top: -1"):
        model.generate("the", settings, top=-1)


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(maximum_length=8),
        GenerationSettings(maximum_length=8, repetition_penalty=1.5),
        GenerationSettings(maximum_length=8, sample=True, temperature=0.7, seed=4, n_best=2),
        GenerationSettings(maximum_length=8, beam=3, n_best=2),
    ],
    ids=["greedy", "penalty", "sample", "beam"],
)
def test_what_is_read_once_is_as_if_read_with_every_prompt(model, settings, monkeypatch):
    first = model.begin("the cat sat ")
    prompts = ["on the", "", "over the hill. rain falls"]
    found = model.generate(prompts, settings, after=first)
    again = model.generate(prompts, settings, after=first)
    assert found == again, "the beginning is left as it was"
    # The plain way: the tokens of both, one after another, read together.
    whole = type(model)(model.model, model.task)
    monkeypatch.setattr(
        "regard.tasks.language_writing.Writer.encode",
        lambda writer, prompt, place=0: [*first.ids, *writer.tokenizer.encode(prompt)],
    )
    for ours, plain in zip(found, whole.generate(prompts, settings), strict=True):
        assert ours.tokens == plain.tokens
        assert ours.text == plain.text
        assert ours.alternatives == plain.alternatives
        assert ours.log_probabilities == pytest.approx(plain.log_probabilities, abs=1e-4)


def test_a_beginning_takes_its_positions(randomize):
    model = built("gpt2", randomize)
    first = model.begin("a dog ran over the hill.")
    room = POSITIONS + 1 - len(first.ids)
    written = model.generate("", GenerationSettings(maximum_length=99, minimum_length=room), after=first)
    assert len(written.tokens) == room
    with pytest.raises(InputError, match=f"positions for {POSITIONS}"):
        model.generate("rain falls on the plain and on the hill. " * 9, after=first)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_plain_weights_are_prepared_for_inference_on_request(name, precision, tmp_path, seeded):
    """The ordinary model is what a folder loads as: it looks without changing a bit, and is saved and trained."""
    task = LanguageModellingTask(Tokenizer.train(["the sum of 3 and 4 is seven"], kind="character", size=40))
    kind, config = {"gpt2": (GPT2, GPT2Config), "llama": (Llama, LlamaConfig)}[name]
    sizes: dict = {"width": 64, "heads": 2, "feedforward_width": 96, "layers": 2, "maximum_positions": 64}
    made = kind(config(**sizes, **task.model_settings())).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.2)
    LanguageModel(made, task).save(tmp_path / "model")
    loaded = regard.load(tmp_path / "model", dtype=precision)
    assert type(loaded.model) is kind
    ready = loaded.quantised(precision)
    assert type(ready.model) is InferenceDecoder
    settings = GenerationSettings(maximum_length=12)
    plain, found = (model.generate(["the sum", "of 3", "f"], settings) for model in (loaded, ready))
    wanted = ready.score("the sum of 3").perplexity
    assert wanted == pytest.approx(
        loaded.score("the sum of 3").perplexity, rel=1e-5 if precision == "float32" else 0.05
    )
    if precision == "float32":
        assert [each.text for each in found] == [each.text for each in plain]
    with regard.look(loaded):
        assert loaded.generate(["the sum", "of 3", "f"], settings) == plain
    with regard.look(ready) as seen:
        ready.generate("the sum", settings)
    assert seen.addresses == ["layers.0.attention", "layers.1.attention"]
    for refused in (lambda: ready.save(tmp_path / "again"), ready.model.train):
        with pytest.raises(
            InputError, match=f"laid out in {precision}, which is for inference, not for training or saving"
        ):
            refused()
    loaded.save(tmp_path / "again")
