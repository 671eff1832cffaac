"""The engine: loaded models and what they are asked, in a process of their own that nothing on the web can block.

`Engine` takes requests and gives replies, step by step; `main` runs one behind a pipe. Language models write by continuous
batching (`regard.generation.ContinuousBatch`); whatever else is asked is answered between two steps, and they continue writing
between the steps of its search.
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
    """Models by name, and what is asked of them.

    Arguments:
        predictors: loaded models by the names they are served under; one may have several.
        rows: texts that a language model writes together.
        kept_bytes: memory of each language model for the beginnings of prompts.
        exchange: sends replies and returns the requests that came meanwhile; called between the steps of searches, so that a long
            translation or caption keeps nobody waiting, and ends where it is cancelled.
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
        """The key of the request whose search continues; None where none does, or it was cancelled."""
        self._changed: Turns[tuple[Write, WritingModel]] = Turns()

    @property
    def busy(self) -> bool:
        """Whether `turn` has something to do."""
        return bool(self._asked or self._changed) or any(model.busy for model in (*self._batches, *self._encoders))

    def take(self, request: Request) -> list[Reply]:
        """Take a request; what can be said at once is returned."""
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
                    raise InputError(f"model: {request.model!r} makes no vectors of texts; serve an encoder for that")
                self.encoding[request.model].add(request)
                return []
            if isinstance(request, Ask):
                self._asked.add(request, request.client)
                return []
            if request.model not in self.writing:
                raise InputError(f"model: {request.model!r} is no language model and continues no texts")
            model = self.writing[request.model]
            if request.interventions:  # written by itself: what it changes, nobody else's text may see
                changed = model.changed(request)
                changed.add(request)
                self._changed.add((request, changed), request.client)
            else:
                model.add(request)
        except Exception as error:
            return [failure(request.key, error)]
        return []

    def turn(self) -> list[Reply]:
        """One step of every model that writes or makes vectors, and one of whatever else is asked."""
        replies: list[Reply] = []
        if self._asked:
            request = self._asked.take()
            self._answering = request.key
            try:
                replies.append(Answer(request.key, self._answer(request)))
            except _Cancelled:
                pass
            except EOFError:  # nobody is there any more who could be answered
                raise
            except Exception as error:
                replies.append(failure(request.key, error))
            self._answering = None
        return replies + self._step()

    def _step(self) -> list[Reply]:
        """One step of every model that writes or makes vectors."""
        replies: list[Reply] = []
        for model in self._encoders:
            if model.busy:
                replies += model.turn(brief=any(each.busy for each in self._batches) or bool(self._changed))
        for model in self._batches:
            if model.busy:
                replies += model.turn()
        if self._changed:
            asked, model = self._changed.take()  # one step of one of them; they take turns
            replies += model.turn()
            if model.busy:
                self._changed.add((asked, model), asked.client)
        return replies

    def _pause(self) -> None:
        """Between two steps of a search: the others continue, and what came meanwhile is taken.

        Raises:
            _Cancelled: where the answer that is searched for is not wanted any more.
        """
        if self._exchange is None:
            return
        replies = self._step()
        while requests := self._exchange(replies):
            replies = [reply for request in requests for reply in self.take(request)]
        if self._answering is None:
            raise _Cancelled

    def load(self) -> Load:
        """How full it is."""
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
    """The answer that is searched for is not wanted any more."""


@dataclass(frozen=True, slots=True)
class _Pauses:
    """Calls after every step of a prediction's search (`regard.tasks.PredictionObserver`)."""

    search_paused: Callable[[], None]

    def search_started(self, source: Any) -> None:
        """Nothing is to be done yet."""

    def search_finished(self, hypotheses: Any) -> None:
        """The answer follows."""

    def read(self, tokens: Any) -> None:
        """Nothing is looked at."""

    def predicted(self, predictions: Any, hypotheses: Any) -> None:
        """The answer follows."""


def _tokenizer(predictor: Any, name: str, side: str | None) -> Tokenizer:
    """The tokenizer of a model; of a translator that has two, the one of a side. A model of images has none.

    Raises:
        InputError: where there is none, or two and no side is named, or one and a side is.
    """
    from regard.tasks.translation import TranslationTask

    task = predictor.task
    if isinstance(task, TranslationTask):
        if side is None and not task.shared:
            raise InputError(
                f"side: {name} has a tokenizer for each side; give source for what it reads, target for what it writes"
            )
        return task.target_tokenizer if side == "target" else task.source_tokenizer
    if not hasattr(task, "tokenizer"):
        raise InputError(f"model: {name} reads no text, so it has no tokens; ask another model")
    if side is not None:
        raise InputError(f"side: {name} is no translator and has one tokenizer; leave it out")
    return task.tokenizer


def cards(predictors: Mapping[str, Any], folders: Mapping[str, Path], rows: int) -> list[Card]:
    """What is served, by name.

    Arguments:
        rows: texts that a language model writes together.

    Raises:
        InputError: for a model that no route is for.
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
    """Load a model to serve. A decoder becomes an `InferenceDecoder` where it can: its rows do not depend on each other.

    Raises:
        InputError: as `regard.load`.
    """
    from regard.quantization import InferenceDecoder
    from regard.quantization.models import unsupported_decoder
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.loading import load

    predictor = load(folder, dtype=dtype)
    plain = isinstance(predictor, LanguageModel) and dtype in ("float32", "bfloat16")
    if not plain or unsupported_decoder(predictor.model):
        return predictor
    decoder = InferenceDecoder(predictor.model, dtype)  # type: ignore[arg-type]
    return LanguageModel(decoder, predictor.task, recipe=predictor.recipe, metrics=predictor.metrics)


def main(pipe: Connection, options: EngineOptions) -> None:
    """Run an engine behind a pipe until the other end is closed."""
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # they reach the whole group; the web process ends this one in its time
        signal.signal(each, signal.SIG_IGN)
    keep_freed_memory()
    warnings.simplefilter("ignore", UnknownCharacters)  # it names words of the text, and the log holds no texts
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
    told = engine.load()
    while True:
        replies: list[Reply] = []
        if not engine.busy:
            pipe.poll(None)
        for request in _exchanged(pipe, ()):
            replies += engine.take(request)
        if engine.busy:
            replies += engine.turn()
        load = engine.load()
        if load != told:
            replies.append(load)
            told = load
        if replies:
            _send(pipe, replies)


def _exchanged(pipe: Connection, replies: Sequence[Reply]) -> list[Request]:
    """The requests that are there, after replies were sent."""
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
    sizes = {each: weight_bytes(Path(each[0])) for each in wanted.values()}  # one that two names share is loaded once
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
    """Where a model lies: the folder or file that is named, a checkpoint such as `runs/x@last`, or what the hub gave."""
    from regard.tasks.loading import model_folder

    return Path(folder) if Path(folder).exists() else model_folder(folder)


def _usual_dtype(folder: Path, dtype: str) -> str:
    from regard.quantization.linear import BITS
    from regard.tasks.loading import task_of

    few_bits = dtype in BITS and task_of(folder) not in ("language_modelling", "translation")
    return "float32" if few_bits else dtype


def weight_bytes(folder: Path) -> int:
    """How large the weights of a model are on disk; 0 where its folder has none, or is none."""
    found = [folder] if folder.is_file() else folder.glob("*.safetensors")
    return sum(path.stat().st_size for path in found if not path.name.startswith("optimizer"))


def _send(pipe: Connection, replies: Sequence[Reply]) -> None:
    pipe.send_bytes(encode(list(replies)))
    sys.stderr.flush()
