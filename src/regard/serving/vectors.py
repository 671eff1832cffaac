"""A sentence encoder for many clients: the texts of all waiting requests are encoded together, in batches of a good size."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import torch

from regard.generation.turns import Turns
from regard.serving.messages import Answer, Ask, Failure, Reply
from regard.serving.writing import TooLong, check_ids, failure

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding import SentenceEncoder

TEXTS_IN_TURN = 16
"""The most texts of one client before the next client's; and the most in one step while language models wait for it."""

TOKENS_AT_ONCE = 1024
"""Tokens per core, over all clients, that are encoded before answers are sent: more are no faster, and delay answers."""

LEAST_TOKENS = 128
"""The fewest tokens for which another core is used."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Texts:
    """A request, as far as it has been served.

    Arguments:
        asked: the request.
        texts: strings, or token ids.
        begun: how many texts have been or are being encoded.
        tokens: the number of their tokens.
        made: their embeddings, as float32 bytes.
    """

    asked: Ask
    texts: Sequence[str | Sequence[int]]
    begun: int = 0
    tokens: int = 0
    made: bytearray = field(default_factory=bytearray)

    def some(self, predictor: SentenceEncoder) -> list[list[int]]:
        """The tokens of its next texts, `TEXTS_IN_TURN` at most.

        Raises:
            InputError: for a text that is too long, and for an id outside of the vocabulary.
        """
        tokenizer, most, texts = predictor.task.tokenizer, predictor.maximum_length, []
        for each in self.texts[self.begun : self.begun + TEXTS_IN_TURN]:
            if not isinstance(each, str):
                check_ids(tokenizer, each)
                each = tokenizer.decode(each)
            texts.append(each)
        found = predictor.task.encode(texts, maximum=sys.maxsize)
        for number, ids in enumerate(found, start=self.begun + 1):
            if len(ids) > most:
                raise TooLong(
                    f"this model's maximum context length is {most} tokens, and text {number} has {len(ids)}; shorten it"
                )
        self.begun += len(found)
        self.tokens += sum(map(len, found))
        return found


class EncodingModel:
    """A sentence encoder for many clients.

    Arguments:
        predictor: the model.
    """

    def __init__(self, predictor: SentenceEncoder) -> None:
        self.predictor = predictor
        self._waiting: Turns[_Texts] = Turns()

    @property
    def busy(self) -> bool:
        """Whether `turn` has work to do."""
        return bool(self._waiting)

    def add(self, asked: Ask) -> None:
        """Queue a request."""
        self._waiting.add(_Texts(asked=asked, texts=asked.given["texts"]), asked.client)

    def cancel(self, key: int) -> None:
        """Drop a request."""
        self._waiting.remove(lambda each: each.asked.key == key)

    def turn(self, *, brief: bool) -> list[Reply]:
        """Encode texts of the clients whose turn it is; returns the answers of requests that are complete.

        Arguments:
            brief: encode `TEXTS_IN_TURN` texts at most.
        """
        parts, failures = self._parts(brief)
        try:
            if parts:
                self._read(parts)
        except Exception as error:
            if len(parts) == 1:
                failures.append(self._failed(parts[0][0], error))
            else:  # one of them caused it: encode them singly
                for part in parts:
                    try:
                        self._read([part])
                    except Exception as own:
                        failures.append(self._failed(part[0], own))
        failed = {each.key for each in failures}
        replies: list[Reply] = [*failures]
        for each, _ in parts:
            if each.begun == len(each.texts) and each.asked.key not in failed:
                value = {"vectors": bytes(each.made), "width": self.predictor.width, "tokens": each.tokens}
                replies.append(Answer(each.asked.key, value))
        return replies

    def _parts(self, brief: bool) -> tuple[list[tuple[_Texts, list[list[int]]]], list[Failure]]:
        """The requests whose texts are encoded now, each with their tokens; and failures of requests that are wrong."""
        chosen: dict[int, tuple[_Texts, list[list[int]]]] = {}
        failures: list[Failure] = []
        held, room = 0, TOKENS_AT_ONCE * torch.get_num_threads()
        while self._waiting and held < room:
            each = self._waiting.take()
            key = each.asked.key
            try:
                found = each.some(self.predictor)
            except Exception as error:
                failures.append(failure(key, error))
                chosen.pop(key, None)
                continue
            chosen.setdefault(key, (each, []))[1].extend(found)
            held += sum(map(len, found))
            if each.begun < len(each.texts):
                self._waiting.add(each, each.asked.client)
            if brief:
                break
        return list(chosen.values()), failures

    def _read(self, parts: Sequence[tuple[_Texts, Sequence[Sequence[int]]]]) -> None:
        texts = list(chain.from_iterable(found for _, found in parts))
        lengths = [len(text) for text in texts]
        each = -(-sum(lengths) // torch.get_num_threads()) + max(lengths)
        vectors = self.predictor.embed_tokens(texts, batch_tokens=max(each, LEAST_TOKENS)).astype("<f4")
        first = 0
        for asked, found in parts:
            asked.made += vectors[first : first + len(found)].tobytes()
            first += len(found)

    def _failed(self, each: _Texts, error: Exception) -> Failure:
        self.cancel(each.asked.key)
        return failure(each.asked.key, error)
