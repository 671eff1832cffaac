"""An encoder that makes vectors for many: texts read together have the vectors they have alone, and one fault is one client's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.models import Bert, BertConfig
from regard.serving import vectors
from regard.serving.engine import Engine
from regard.serving.messages import Answer, Ask, Cancel, Failure, Reply
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer

TEXTS = ["a cat sat", "on", "a mat and saw a cat", "the cat", "a mat on a mat on a mat"]


@pytest.fixture
def encoder(randomize: Any) -> SentenceEncoder:
    tokenizer = Tokenizer.train([*TEXTS] * 3, kind="bert", size=60, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=32)
    sizes = {"width": 12, "heads": 3, "feedforward_width": 10, "layers": 2, "maximum_positions": 40}
    return SentenceEncoder(randomize(Bert(BertConfig(**sizes, **task.model_settings())), scale=2.0), task)


def ask(key: int, texts: list[Any], client: str = "one") -> Ask:
    return Ask(key=key, model="encoder", what="embed", given={"texts": texts}, client=[client])


def turns(engine: Engine, *asks: Ask) -> list[list[Reply]]:
    """What comes of each turn."""
    for each in asks:
        assert engine.take(each) == []
    found = []
    while engine.busy:
        found.append(engine.turn())
    return found


def told(reply: Reply) -> np.ndarray:
    assert isinstance(reply, Answer)
    return np.frombuffer(reply.value["vectors"], dtype="<f4").reshape(-1, reply.value["width"])


def test_who_waits_is_answered_in_one_pass_with_the_vectors_of_each_text_alone(encoder: SentenceEncoder) -> None:
    ids = [encoder.task.tokenizer.encode("the cat")]
    (replies,) = turns(Engine({"encoder": encoder}), ask(1, TEXTS), ask(2, TEXTS[:2], "two"), ask(3, ids, "three"))
    answers = {reply.key: told(reply) for reply in replies if isinstance(reply, Answer)}
    for key, texts in ((1, TEXTS), (2, TEXTS[:2]), (3, ["the cat"])):
        alone = np.concatenate([encoder.embed([text]) for text in texts])
        np.testing.assert_allclose(answers[key], alone, atol=1e-5)
    counts = {reply.key: reply.value["tokens"] for reply in replies if isinstance(reply, Answer)}
    assert counts[2] == sum(map(len, encoder.task.encode(TEXTS[:2], maximum=99)))


def test_many_texts_of_one_client_do_not_keep_another_waiting(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "TOKENS_AT_ONCE", 1)
    made = turns(Engine({"encoder": encoder}), ask(1, TEXTS * 10), ask(2, TEXTS, "two"))
    order = [reply.key for replies in made for reply in replies if isinstance(reply, Answer)]
    assert order == [2, 1]
    assert len(made) == 5, "16 texts a turn, of 50, and one turn of the other client"
    whole = told(made[-1][0])
    np.testing.assert_allclose(whole, np.tile(encoder.embed(TEXTS), (10, 1)), atol=1e-5)


def test_what_is_wrong_with_one_request_is_told_to_it_alone(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = SentenceEncoder.embed_tokens

    def failing(self: SentenceEncoder, inputs: Any, **more: Any) -> Any:
        if any(len(each) == 3 for each in inputs):
            raise ZeroDivisionError("in the vectors")
        return whole(self, inputs, **more)

    monkeypatch.setattr(SentenceEncoder, "embed_tokens", failing)
    asks = [ask(1, [TEXTS[0]]), ask(2, ["on"]), ask(3, ["cat " * 40]), ask(4, [[7, 999]]), ask(5, [TEXTS[2]])]
    (replies,) = turns(Engine({"encoder": encoder}), *asks)
    failed = {reply.key: reply for reply in replies if isinstance(reply, Failure)}
    assert sorted(failed) == [2, 3, 4]
    assert (failed[2].blame, failed[3].code) == ("engine", "context_length_exceeded")
    assert "text 1 has" in failed[3].message
    assert "999 is none" in failed[4].message
    assert "ZeroDivisionError: in the vectors" in capsys.readouterr().err
    assert sorted(reply.key for reply in replies if isinstance(reply, Answer)) == [1, 5]


def test_who_goes_away_is_forgotten(encoder: SentenceEncoder) -> None:
    engine = Engine({"encoder": encoder})
    engine.take(ask(1, TEXTS))
    engine.take(Cancel(1))
    assert not engine.busy
