"""The engine: the process that holds the loaded models and answers requests, so that the web process is never blocked.

`Engine` takes requests and returns replies, step by step; `main` runs one behind a pipe. Language models generate with continuous
batching (`regard.generation.ContinuousBatch`). Other requests are answered between two of its steps, and generation goes on
between the steps of their searches.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from regard.errors import InputError
from regard.generation.turns import Turns
from regard.inspection import attention_addresses
from regard.machine import keep_freed_memory
from regard.serving.attention import Attention, Interventions
from regard.serving.examining import beam, effects, lens
from regard.serving.first_texts import first_texts
from regard.serving.looking import answered
from regard.serving.messages import (
    Answer,
    Ask,
    Broken,
    Cancel,
    Card,
    EngineOptions,
    Load,
    Loading,
    Ready,
    Reply,
    Request,
    Write,
    decode_request,
    encode,
)
from regard.serving.tasks import ROUTES, routes_of
from regard.serving.tokens import token_names
from regard.serving.vectors import EncodingModel
from regard.serving.writing import WritingModel, check_ids, failure
from regard.text.warnings import UnknownCharacters

if TYPE_CHECKING:
    from regard.text.tokenizer import Tokenizer


class Engine:
    """Loaded models and the queue of requests.

    Arguments:
        predictors: models by the names they are served under; a model may have several names.
        rows: the most texts that one language model generates at the same time.
        kept_bytes: memory of each language model for the KV caches of prompt prefixes.
        exchange: sends replies and returns the requests that have arrived; called between the steps of searches, so that a long
            translation or caption delays no other request, and stops when it is cancelled.
    """

    def __init__(
        self,
        predictors: Mapping[str, Any],
        *,
        rows: int = 16,
        kept_bytes: int = 2**28,
        exchange: Callable[[Sequence[Reply]], Sequence[Request]] | None = None,
    ) -> None:
        from regard.tasks.language_modelling import LanguageModel
        from regard.tasks.sentence_embedding import SentenceEncoder

        self.predictors = dict(predictors)
        made: dict[int, WritingModel] = {}
        encoders: dict[int, EncodingModel] = {}
        self.writing: dict[str, WritingModel] = {}
        self.encoding: dict[str, EncodingModel] = {}
        for name, predictor in self.predictors.items():
            if isinstance(predictor, LanguageModel):
                if id(predictor) not in made:
                    made[id(predictor)] = WritingModel(predictor, rows=rows, kept_bytes=kept_bytes)
                self.writing[name] = made[id(predictor)]
            elif isinstance(predictor, SentenceEncoder):
                self.encoding[name] = encoders.setdefault(id(predictor), EncodingModel(predictor))
        self._batches = list(made.values())
        self._encoders = list(encoders.values())
        self._asked: Turns[Ask] = Turns()
        self._exchange = exchange
        self._answering: int | None = None
        """The key of the request whose search is running; None without one, and after it was cancelled."""
        self._changed: Turns[tuple[Write, WritingModel]] = Turns()

    @property
    def busy(self) -> bool:
        """Whether `turn` has work to do."""
        return bool(self._asked or self._changed) or any(model.busy for model in (*self._batches, *self._encoders))

    def take(self, request: Request) -> list[Reply]:
        """Queue or cancel a request; returns the replies that are known at once, such as an error."""
        if isinstance(request, Cancel):
            for model in (*self._batches, *self._encoders):
                model.cancel(request.key)
            self._asked.remove(lambda each: each.key == request.key)
            if self._answering == request.key:
                self._answering = None
            self._changed.remove(lambda each: each[0].key == request.key)
            return []
        try:
            if request.model not in self.predictors:
                raise InputError(f"there is no model {request.model!r}")
            if isinstance(request, Ask) and request.what == "embed":
                if request.model not in self.encoding:
                    raise InputError(
                        f"model: {request.model!r} computes no text embeddings; serve a sentence encoder for that"
                    )
                self.encoding[request.model].add(request)
                return []
            if isinstance(request, Ask):
                self._asked.add(request, request.client)
                return []
            if request.model not in self.writing:
                raise InputError(f"model: {request.model!r} is no language model and generates no text")
            model = self.writing[request.model]
            if request.interventions:  # generated alone: its changes must not reach other texts
                changed = model.changed(request)
                changed.add(request)
                self._changed.add((request, changed), request.client)
            else:
                model.add(request)
        except Exception as error:
            return [failure(request.key, error)]
        return []

    def turn(self) -> list[Reply]:
        """Answer one queued request, and run one step of every model that generates text or computes embeddings."""
        replies: list[Reply] = []
        if self._asked:
            request = self._asked.take()
            self._answering = request.key
            try:
                replies.append(Answer(request.key, self._answer(request)))
            except _Cancelled:
                pass
            except EOFError:  # the web process has ended
                raise
            except Exception as error:
                replies.append(failure(request.key, error))
            self._answering = None
        return replies + self._step()

    def _step(self) -> list[Reply]:
        """One step of every model that generates text or computes embeddings."""
        replies: list[Reply] = []
        for model in self._encoders:
            if model.busy:
                replies += model.turn(brief=any(each.busy for each in self._batches) or bool(self._changed))
        for model in self._batches:
            if model.busy:
                replies += model.turn()
        if self._changed:
            asked, model = self._changed.take()  # one step of one request; they take turns
            replies += model.turn()
            if model.busy:
                self._changed.add((asked, model), asked.client)
        return replies

    def _pause(self) -> None:
        """Called between two steps of a search: runs a step of the other requests and takes those that have arrived.

        Raises:
            _Cancelled: where the request that is being answered was cancelled.
        """
        if self._exchange is None:
            return
        replies = self._step()
        while requests := self._exchange(replies):
            replies = [reply for request in requests for reply in self.take(request)]
        if self._answering is None:
            raise _Cancelled

    def load(self) -> Load:
        """The numbers of texts being generated and of requests waiting, by model."""
        return Load(
            writing={name: model.batch.writing for name, model in self.writing.items()},
            waiting={name: model.batch.waiting for name, model in self.writing.items()},
        )

    def _answer(self, request: Ask) -> Any:
        predictor, given = self.predictors[request.model], request.given
        if request.what == "tokenize":
            tokenizer = _tokenizer(predictor, request.model, given.get("side"))
            ids = tokenizer.encode(given["text"])
            if given["special"] and request.model in self.writing:
                ids = predictor.task.prompted(ids)
            return {"ids": list(ids), "texts": [name for name, _ in map(token_names(tokenizer), ids)]}
        if request.what == "detokenize":
            tokenizer = _tokenizer(predictor, request.model, given.get("side"))
            check_ids(tokenizer, given["ids"])
            return tokenizer.decode(given["ids"])
        if request.what == "expected" and request.model in self.writing:
            return self.writing[request.model].expected(
                given["text"],
                msgspec.convert(given["interventions"], Interventions),
                msgspec.convert(given["attention"], Attention | None),
                top=given["top"],
                pause=self._pause,
            )
        if request.what == "lens":
            return lens(predictor, given, msgspec.convert(given["interventions"], Interventions))
        if request.what == "effects" and request.model in self.writing:
            asked = (given["ids"], msgspec.convert(given["interventions"], Interventions))
            return effects(predictor, None, asked, given["address"])
        route = ROUTES[given["route"]]
        asked = msgspec.convert(given["request"], route.request)
        if request.what == "beam":
            return beam(predictor, route, asked)
        if request.what == "effects":
            return effects(predictor, route, asked, given["address"])
        if asked.attention is None and not asked.interventions:
            with predictor.observing(_Pauses(self._pause)) if self._exchange is not None else nullcontext():
                return route.answer(predictor, asked)
        return answered(predictor, route, asked)


class _Cancelled(Exception):
    """The request that is being answered was cancelled."""


@dataclass(frozen=True, slots=True)
class _Pauses:
    """Calls a function after every step of a prediction's search (`regard.tasks.PredictionObserver`)."""

    search_paused: Callable[[], None]

    def search_started(self, source: Any) -> None:
        """Do nothing."""

    def search_finished(self, hypotheses: Any) -> None:
        """Do nothing."""

    def read(self, tokens: Any) -> None:
        """Do nothing."""

    def predicted(self, predictions: Any, hypotheses: Any) -> None:
        """Do nothing."""


def _tokenizer(predictor: Any, name: str, side: str | None) -> Tokenizer:
    """The tokenizer of a model; `side` names one of a translator's two.

    Raises:
        InputError: for a model without a tokenizer, one with two where `side` is None, and one with one where `side` is given.
    """
    from regard.tasks.translation import TranslationTask

    task = predictor.task
    if isinstance(task, TranslationTask):
        if side is None and not task.shared:
            raise InputError(f"side: {name} has a tokenizer for each side; give 'source' or 'target'")
        return task.target_tokenizer if side == "target" else task.source_tokenizer
    if not hasattr(task, "tokenizer"):
        raise InputError(f"model: {name} reads no text, so it has no tokens; ask another model")
    if side is not None:
        raise InputError(f"side: {name} is no translator and has one tokenizer; leave it out")
    return task.tokenizer


def cards(predictors: Mapping[str, Any], folders: Mapping[str, Path], rows: int) -> list[Card]:
    """The descriptions of the served models.

    Arguments:
        predictors: models by name.
        folders: of the models, by name.
        rows: the most texts that one language model generates at the same time.

    Raises:
        InputError: for a model that no route serves.
    """
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.sentence_embedding import SentenceEncoder

    found = []
    for name, predictor in predictors.items():
        encodes = isinstance(predictor, SentenceEncoder)
        found.append(
            Card(
                name=name,
                task=predictor.task.name,
                created=int(os.stat(folders[name]).st_mtime),
                positions=predictor.maximum_length if encodes else getattr(predictor.model, "maximum_length", None),
                chats=getattr(predictor.task, "chat", None) is not None,
                width=predictor.width if encodes else None,
                parameters=sum(part.numel() for part in predictor.model.parameters()),
                attention=list(attention_addresses(predictor.model)),
                routes=[route.name for route in routes_of(predictor)],
                rows=rows if isinstance(predictor, LanguageModel) else None,
                first_texts=first_texts(predictor, folders[name]),
                languages=list(getattr(predictor.task, "languages", ())),
            )
        )
    return found


def opened(folder: Path, dtype: str) -> Any:
    """Load a model to serve.

    A decoder becomes an `InferenceDecoder` where it can, since the rows of a batch do not affect each other there.

    Raises:
        InputError: as `regard.load`.
    """
    from regard.quantization import InferenceDecoder
    from regard.quantization.decoder import unsupported_decoder
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.loading import load

    predictor = load(folder, dtype=dtype)
    plain = isinstance(predictor, LanguageModel) and dtype in ("float32", "bfloat16")
    if not plain or unsupported_decoder(predictor.model):
        return predictor
    decoder = InferenceDecoder(predictor.model, dtype)  # type: ignore[arg-type]
    return LanguageModel(decoder, predictor.task, recipe=predictor.recipe, metrics=predictor.metrics)


def main(pipe: Connection, options: EngineOptions) -> None:
    """Run an engine until the other end of the pipe is closed."""
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # sent to the whole process group; the web process ends this one when it is time
        signal.signal(each, signal.SIG_IGN)
    keep_freed_memory()
    warnings.simplefilter("ignore", UnknownCharacters)  # the warning quotes the text, and texts are not logged
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _run(pipe, options)


def _run(pipe: Connection, options: EngineOptions) -> None:
    try:
        engine = _loaded(pipe, options)
    except InputError as error:
        _send(pipe, [Broken(str(error))])
        return
    sent = engine.load()
    while True:
        replies: list[Reply] = []
        if not engine.busy:
            pipe.poll(None)
        for request in _exchanged(pipe, ()):
            replies += engine.take(request)
        if engine.busy:
            replies += engine.turn()
        load = engine.load()
        if load != sent:
            replies.append(load)
            sent = load
        if replies:
            _send(pipe, replies)


def _exchanged(pipe: Connection, replies: Sequence[Reply]) -> list[Request]:
    """Send replies, and return the requests that have arrived."""
    if replies:
        _send(pipe, replies)
    found: list[Request] = []
    while pipe.poll():
        found.append(decode_request(pipe.recv_bytes()))
    return found


def _loaded(pipe: Connection, options: EngineOptions) -> Engine:
    predictors: dict[str, Any] = {}
    opened_once: dict[tuple[str, str], Any] = {}
    places = {name: _place(folder) for name, folder in options.folders.items()}
    wanted = {
        name: (str(place), options.dtypes.get(name) or _usual_dtype(place, options.dtype))
        for name, place in places.items()
    }
    sizes = {each: weight_bytes(Path(each[0])) for each in wanted.values()}  # a model under two names is loaded once
    for number, (name, each) in enumerate(wanted.items(), start=1):
        before = sum(sizes[loaded] for loaded in opened_once)
        size = 0 if each in opened_once else sizes[each]
        _send(pipe, [Loading(name, number, len(wanted), size, before, sum(sizes.values()))])
        if each not in opened_once:
            folder, dtype = each
            opened_once[each] = opened(Path(folder), dtype)
        predictors[name] = opened_once[each]
    exchange = partial(_exchanged, pipe)
    engine = Engine(predictors, rows=options.rows, kept_bytes=options.kept_bytes, exchange=exchange)
    _send(pipe, [Ready(cards(predictors, places, options.rows))])
    return engine


def _place(folder: str) -> Path:
    """The folder or file of a model: a path, a checkpoint such as `runs/x@last`, or a model in the hub's cache."""
    from regard.tasks.loading import model_folder

    return Path(folder) if Path(folder).exists() else model_folder(folder)


def _usual_dtype(folder: Path, dtype: str) -> str:
    from regard.quantization.linear import BITS
    from regard.tasks.loading import task_of

    few_bits = dtype in BITS and task_of(folder) not in ("language_modelling", "translation")
    return "float32" if few_bits else dtype


def weight_bytes(folder: Path) -> int:
    """The size of a model's weights on disk, in bytes; 0 where there are none."""
    found = [folder] if folder.is_file() else folder.glob("*.safetensors")
    return sum(path.stat().st_size for path in found if not path.name.startswith("optimizer"))


def _send(pipe: Connection, replies: Sequence[Reply]) -> None:
    pipe.send_bytes(encode(list(replies)))
    sys.stderr.flush()
