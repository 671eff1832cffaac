"""Continuous batching: whoever joins or leaves, a text and its log-probabilities are the same bits as alone."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Hashable
from typing import Any

import pytest
import torch
from tests.generation.test_batch_invariance import VOCABULARY, banded, gpt2, llama, odd

from regard.errors import InputError
from regard.generation import (
    Continuation,
    ContinuousBatch,
    FixedLength,
    Greedy,
    NextToken,
    PromptRead,
    RepetitionPenalty,
    RequestFailed,
    SampleRows,
    Temperature,
    TextRequest,
    TokenEvent,
    generate,
)
from regard.generation.continuous import KeptPrompts
from regard.layers import Tokens
from regard.quantization import InferenceDecoder

MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "odd widths": odd,
    "banded": banded,
    "llama": llama,
    "llama bfloat16": lambda: llama().bfloat16(),
    "llama 8 bits": lambda: InferenceDecoder(llama(), "int8"),
    "gpt2 4 bits": lambda: InferenceDecoder(gpt2(), "int4"),
    "gpt2 float32 kernel": lambda: InferenceDecoder(gpt2(), "float32"),
}


def wanted(model: Any, seed: int, *, limit: int = 9, top: int = 0) -> TextRequest:
    config = Continuation(model).config
    choice = SampleRows([seed]).begin(1) if seed else Greedy().begin(1)
    transforms = (RepetitionPenalty(1.2, None), Temperature(0.9)) if seed else ()
    return TextRequest(rules=NextToken(config=config, choice=choice, transforms=transforms), limit=limit, top=top)


def prompt_of(draw: random.Random) -> list[int]:
    return [draw.randrange(3, VOCABULARY) for _ in range(draw.randrange(1, 30))]


def told_by_key(events: list[Any]) -> dict[Hashable, list[tuple[Any, ...]]]:
    found: dict[Hashable, list[tuple[Any, ...]]] = {}
    for event in events:
        if isinstance(event, TokenEvent):
            found.setdefault((event.key, event.copy), []).append(
                (event.token, event.log_probability, event.top, event.end)
            )
    return found


def all_of(batch: ContinuousBatch) -> list[Any]:
    events: list[Any] = []
    while batch.busy:
        events += batch.turn()
    return events


SLOW = ("gpt2", "banded", "llama bfloat16", "gpt2 float32 kernel")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in MODELS]
)
def test_a_text_is_the_same_bits_alone_and_among_texts_that_join_and_leave(kind: str) -> None:
    model = MODELS[kind]()
    draw = random.Random(7)
    common = [draw.randrange(3, VOCABULARY) for _ in range(18)]
    asked = []
    for key in range(14):
        prompt = prompt_of(draw) if key % 3 else common + prompt_of(draw)
        asked.append((key, prompt, [draw.randrange(4) for _ in range(draw.choice([1, 1, 3]))], draw.randrange(1, 14)))

    def texts(seeds: list[int], limit: int) -> list[TextRequest]:
        return [wanted(model, seed, limit=limit, top=2) for seed in seeds]

    alone: dict[Hashable, Any] = {}
    for key, prompt, seeds, limit in asked:
        batch = ContinuousBatch(model, rows=4, chunk=8, kept_bytes=0)
        batch.add(key, prompt, texts(seeds, limit))
        alone |= told_by_key(all_of(batch))
    batch = ContinuousBatch(model, rows=4, chunk=8)
    events: list[Any] = []
    gone = {3, 8}
    for key, prompt, seeds, limit in asked:
        batch.add(key, prompt, texts(seeds, limit), client=(f"client {key % 3}",))
        for _ in range(draw.randrange(4)):
            events += batch.turn()
        if key in gone:
            batch.cancel(key)
    events += all_of(batch)
    together = told_by_key(events)
    assert not [event for event in events if isinstance(event, RequestFailed)]
    for key, found in alone.items():
        if key[0] not in gone:  # type: ignore[index]
            assert together[key] == found
    assert batch.writing == batch.waiting == 0
    assert any(event.reused for event in events if isinstance(event, PromptRead))  # the test shares beginnings


def test_greedy_texts_are_those_of_generate() -> None:
    model = gpt2()
    prompt = [5, 9, 11, 3, 40]
    batch = ContinuousBatch(model)
    batch.add("a", prompt, [wanted(model, 0, limit=12)])
    tokens = [event.token for event in all_of(batch) if isinstance(event, TokenEvent)]
    found = generate(Continuation(model), Tokens.pad([prompt]), limit=FixedLength(12))[0]
    assert tuple(tokens[: len(found.tokens)]) == found.tokens


def test_the_prompt_is_scored_as_the_model_scores_it() -> None:
    model = gpt2()
    prompt = [5, 9, 11, 3, 40, 8, 7, 12, 14, 3]
    batch = ContinuousBatch(model, chunk=4)
    batch.add("a", prompt, [wanted(model, 0, limit=0, top=3)], scored=True)
    (read,) = all_of(batch)
    with torch.no_grad():
        logits = model(Tokens.pad([prompt]))[0].log_softmax(dim=-1)
    expected = [float(logits[place, token]) for place, token in enumerate(prompt[1:])]
    assert read.log_probabilities == pytest.approx(expected, rel=1e-5)
    assert [top[0][0] for top in read.top] == logits[:-1].argmax(dim=-1).tolist()
    assert all(len(top) == 3 for top in read.top)


def test_clients_take_turns_however_many_requests_and_users_one_has() -> None:
    model = gpt2()
    batch = ContinuousBatch(model, rows=1)
    for number in range(5):
        batch.add(("greedy", number), [4, 5], [wanted(model, 0, limit=2)], client=("one", f"user {number}"))
    batch.add(("patient", 0), [4, 5], [wanted(model, 0, limit=2)], client=("other", ""))
    order = [event.key for event in all_of(batch) if isinstance(event, PromptRead)]
    assert order.index(("patient", 0)) <= 1


@pytest.mark.parametrize(
    "error", [InputError("decoding: every token is forbidden at step 2"), ZeroDivisionError("in a rule")]
)
def test_a_request_that_fails_ends_alone(error: Exception) -> None:
    model = gpt2()

    def broken(logits: Any, paths: Any) -> Any:
        if paths.length == 2:
            raise error
        return logits.argmax(dim=-1)

    batch = ContinuousBatch(model)
    config = Continuation(model).config
    batch.add("bad", [4, 5, 6], [TextRequest(rules=NextToken(config=config, choice=broken), limit=9)])
    batch.add("good", [4, 5, 6], [wanted(model, 0, limit=9)])
    events = all_of(batch)
    assert [event.key for event in events if isinstance(event, RequestFailed)] == ["bad"]
    good = [event for event in events if isinstance(event, TokenEvent) and event.key == "good"]
    assert good[-1].end


def test_a_prompt_that_cannot_be_read_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt2()
    embedded = model.embedding.forward

    def broken(ids: Any, positions: Any) -> Any:
        if 7 in ids:
            raise MemoryError
        return embedded(ids, positions)

    monkeypatch.setattr(model.embedding, "forward", broken)
    batch = ContinuousBatch(model, chunk=8)
    long = [4, 5, 6] * 4
    for name, prompt in (
        ("good", [4, 5, 6]),
        ("bad", [4, 7, 6]),
        ("late", [4, 5]),
        ("long", [*long, 7, 6]),
        ("end", long),
    ):
        batch.add(name, prompt, [wanted(model, 0, limit=5)])
    events = all_of(batch)
    assert [(event.key, type(event.error)) for event in events if isinstance(event, RequestFailed)] == [
        ("bad", MemoryError),
        ("long", MemoryError),
    ]
    assert {event.key for event in events if isinstance(event, TokenEvent) and event.end} == {"good", "late", "end"}


def test_short_prompts_are_read_together_and_make_up_two_chunks_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama()
    read, groups = model.read_texts, []

    def counted(texts: Any, *rest: Any) -> Any:
        groups.append([len(text) for text in texts])
        return read(texts, *rest)

    monkeypatch.setattr(model, "read_texts", counted)
    batch = ContinuousBatch(model, chunk=4, rows=4)
    for key, length in enumerate((3, 1, 4, 3, 2, 5, 2)):
        batch.add(key, list(range(3, 3 + length)), [wanted(model, 0, limit=2)])
    events = all_of(batch)
    assert {event.key for event in events if isinstance(event, TokenEvent) and event.end} == set(range(7))
    assert groups == [[2, 0, 3], [2], [1], [1]]


def test_a_step_that_fails_ends_those_who_write_and_nobody_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt2()
    batch = ContinuousBatch(model, rows=3)
    for name, copies in (("first", 2), ("second", 1), ("waiting", 3)):
        batch.add(name, [4, 5, 6], [wanted(model, 0, limit=5) for _ in range(copies)])
    batch.turn()
    batch.turn()
    with monkeypatch.context() as broken:
        broken.setattr(model, "step", lambda tokens, state: 1 / 0)
        failed = batch.turn()
    assert [event.key for event in failed if isinstance(event, RequestFailed)] == ["first", "second"]
    ended = [(event.key, event.copy) for event in all_of(batch) if isinstance(event, TokenEvent) and event.end]
    assert sorted(ended) == [("waiting", 0), ("waiting", 1), ("waiting", 2)]


def test_a_long_prompt_does_not_stop_those_that_write() -> None:
    model = gpt2()
    batch = ContinuousBatch(model, chunk=4)
    batch.add("first", [4, 5], [wanted(model, 0, limit=12)])
    batch.turn()
    batch.add("long", [3 + place % 50 for place in range(41)], [wanted(model, 0, limit=1)])
    for _ in range(9):  # its ten chunks
        assert any(isinstance(event, TokenEvent) and event.key == "first" for event in batch.turn())
    assert batch.waiting == 1


@pytest.mark.parametrize(
    ("prompt", "texts", "message"),
    [([], 1, "no token"), ([5] * 81, 1, "81 tokens"), ([5], 5, "1 to 4"), ([5], 0, "1 to 4")],
)
def test_what_cannot_be_written_is_refused(prompt: list[int], texts: int, message: str) -> None:
    model = gpt2()
    batch = ContinuousBatch(model, rows=4)
    with pytest.raises(InputError, match=message):
        batch.add("a", prompt, [wanted(model, 0) for _ in range(texts)])
    assert not batch.busy


def test_kept_prompts_stay_within_their_memory() -> None:
    model = gpt2()
    batch = ContinuousBatch(model, chunk=8, kept_bytes=200_000)
    draw = random.Random(1)
    for number in range(20):
        batch.add(number, [draw.randrange(3, VOCABULARY) for _ in range(40)], [wanted(model, 0, limit=1)])
    all_of(batch)
    kept: KeptPrompts = batch._kept
    assert 0 < kept.bytes <= 200_000
    states = [state for state, _ in kept._states.values()]
    assert kept.bytes == sum(map(storages, states))


def storages(state: Any) -> int:
    """The memory under all tensors that are reached from a state."""
    found: dict[int, int] = {}
    referred, seen = [state], set()
    while referred:
        each = referred.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            found[each.untyped_storage().data_ptr()] = each.untyped_storage().nbytes()
        elif type(each).__module__.startswith("regard.") or isinstance(each, list | tuple | dict):
            referred += [part for part in gc.get_referents(each) if not isinstance(part, type)]
    return sum(found.values())


@pytest.mark.parametrize("kind", ["odd widths", "llama 8 bits"])
def test_rows_that_are_chosen_together_are_the_bits_of_rows_with_rules_of_their_own(kind: str) -> None:
    model, draw = MODELS[kind](), random.Random(5)
    prompts = [prompt_of(draw) for _ in range(6)]

    def texts(*transforms: Any) -> dict[Hashable, list[tuple[Any, ...]]]:
        batch = ContinuousBatch(model, rows=6)
        for key, prompt in enumerate(prompts):
            ends = (7, 9) if key % 2 else ()
            rules = NextToken(
                config=Continuation(model).config,
                choice=Greedy().begin(1),
                transforms=transforms,
                minimum_length=key,
                end_tokens=ends,
            )
            assert rules.is_plain is not bool(transforms)
            batch.add(key, prompt, [TextRequest(rules=rules, limit=9, top=key)])
        return told_by_key(all_of(batch))

    assert texts() == texts(lambda logits, paths: logits)


def test_a_row_whose_logits_are_not_finite_fails_alone_among_rows_chosen_together() -> None:
    model = MODELS["odd widths"]()
    original = model.step

    def step(tokens: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        logits, state = original(tokens, state)
        return torch.where(tokens[:, None] == 3, torch.nan, logits), state

    model.step = step
    batch = ContinuousBatch(model, rows=2)
    for key, prompt in (("bad", [5, 3]), ("good", [5, 4])):
        batch.add(key, prompt, [wanted(model, 0, limit=1)])
    events = {event.key: event for event in all_of(batch) if not isinstance(event, PromptRead)}
    assert isinstance(events["bad"], RequestFailed)
    assert isinstance(events["good"], TokenEvent)
