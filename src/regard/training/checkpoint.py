"""Where a run stands, its log (one line per event, none twice), and its checkpoints.

A checkpoint is a whole model folder with the state of training in it, and a pointer file says which count:

    checkpoints/step-00000500/   config.json, model.safetensors, ... as any model folder; optimizer.safetensors, progress.json
    checkpoints.json             {"last": "step-00000500", "best": "step-00000400", "before": {"last": "step-00000400", ...}}

Of a model that FSDP divides, every worker writes a shard (`regard.training.shards`), in our own layout; none holds all of it.

A checkpoint is written to a new folder and forced to disk; then the pointer file is replaced; then older checkpoints, that it no
longer names, are removed. Killed anywhere in between, the run continues from the checkpoint the pointer names. Only folders
that a run writes, `step-` and eight digits, are ever removed; a copy under another name stays, and links are refused.

While a run continues, the checkpoint before the last stays too, under `before`: where a disk has damaged the last one, the run
goes on from there, and says so. It goes before the next checkpoint is written, so that the folder is never larger for it than
while a checkpoint is written, and when the run has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from regard.checkpoints import read_card, read_parameters, record_weights, write_tensors
from regard.checkpoints.adapters import has_adapters, read_adapters
from regard.checkpoints.folder import OWN, WEIGHTS
from regard.checkpoints.tensors import file_digest, verify_tensors
from regard.errors import InputError
from regard.files import new_folder, replace_file, writing_errors
from regard.reading import as_object, read_json_object
from regard.structure import finite, from_mapping
from regard.tasks.card import README
from regard.tasks.loading import POINTER, pointers_before, pointers_of
from regard.tasks.task import LossSum
from regard.training.shards import Stored, Written, files_of, write_index, write_shard
from regard.training.workers import Workers, like, whole

Tally = tuple[float, int, int]
"""A sum of losses, over how many labels it is, and how many of them were right."""


@dataclass(kw_only=True, slots=True)
class Progress:
    """The counters of a run. Restoring them, the parameters and the optimiser's state continues the run bit for bit.

    Arguments:
        step: updates made.
        epoch, window: the next update's place: which pass over the data, which group of batches in it.
        tokens: target tokens learned from.
        seconds: spent training, over all sittings.
        loss_sum, loss_tokens, correct: since the last line of the log.
        beside: the same three of each further loss, by name.
        best_value, best_step: the best evaluation so far; the value is None before the first.
        best_loss: the validation loss of that evaluation, which decides between equal values.
        worse: evaluations since the best.
        log_bytes: length of log.jsonl; what a killed process wrote beyond is cut off on resuming.
        finished: why the run ended; empty while it has not.
    """

    step: int = 0
    epoch: int = 0
    window: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_tokens: int = 0
    correct: int = 0
    beside: dict[str, Tally] = field(default_factory=dict)
    best_value: float | None = None
    best_step: int = 0
    best_loss: float | None = None
    worse: int = 0
    log_bytes: int = 0
    finished: str = ""

    def count(self, loss: LossSum) -> float:
        """Add a batch's losses to the tallies; returns their sum, which is finite where all of them are."""
        own = whole(loss.total).item()
        self.loss_sum += own
        self.loss_tokens += loss.tokens
        self.correct += int(loss.correct)
        for name, part in loss.auxiliary.items():
            total, labels, right = self.beside.get(name, (0.0, 0, 0))
            value = whole(part.total).item()
            own += value
            self.beside[name] = (total + value, labels + part.tokens, right + int(part.correct))
        return own

    def tallies(self, names: Sequence[str]) -> list[Tally]:
        """The tally of the loss itself, then those of the further losses of these names."""
        own = (self.loss_sum, self.loss_tokens, self.correct)
        return [own, *(self.beside.get(name, (0.0, 0, 0)) for name in names)]

    def forget_tallies(self) -> None:
        """Begin to count again for the next line of the log."""
        self.loss_sum, self.loss_tokens, self.correct, self.beside = 0.0, 0, 0, {}

    def to_mapping(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any], where: str) -> Progress:
        """From JSON values."""
        return from_mapping(cls, values, where)


class JsonLines:
    """log.jsonl: an append-only log that a resumed run first cuts back to where its checkpoint was made.

    Arguments:
        path: of the file.
        size: bytes to keep of what is there.
        held: called before each write; raises where the run's folder is not the run's any more.

    Raises:
        InputError: for a place that cannot be written to, or one that is a link, a pipe or another thing than a file: what a
            link points to is not the run's to cut back.
    """

    def __init__(self, path: Path, size: int, held: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._held = held
        self.lost = 0
        """Bytes that ought to be there and are not."""
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(f"{path}: is no file of its own; remove it, or train into another folder")
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                found = path.stat().st_size
                file.truncate(min(size, found))
        self.lost = max(0, size - found)

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one line."""
        self._held()
        with writing_errors(self.path), self.path.open("ab") as file:
            file.write(json.dumps(finite(event), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def settled(self) -> int:
        """Force the file to disk and return its length in bytes, for the checkpoint to remember."""
        self._held()
        with writing_errors(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()


OPTIMIZER = "optimizer.safetensors"
PROGRESS = "progress.json"
STEP = re.compile(r"step-\d{8}")
"""The name of a checkpoint that a run wrote."""


class Checkpoints:
    """The checkpoints in a run's folder.

    Arguments:
        folder: of the run.
        workers: all take part; the first writes, and of a sharded model each its part.
    """

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder = folder
        self.workers = workers
        self.cannot_resume = ""
        """Why the run that was restored cannot go further; empty where it can."""
        self.fault = ""
        """What is damaged, where the run continued from an earlier checkpoint than its last."""
        self.pointers: dict[str, str] = {}
        """`last` and `best`, names of folders under checkpoints/; empty before the first checkpoint and before `restore`."""
        self._before: dict[str, str] = {}

    def place(self, name: str) -> Path:
        """The folder of a checkpoint by name."""
        return self.folder / "checkpoints" / name

    def save(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        write_model: Callable[[Path, Mapping[str, Tensor]], None],
        *,
        adapted: bool = False,
    ) -> None:
        """Write a checkpoint of this moment and make it the last, and the best if `progress` says so.

        Arguments:
            model: unwrapped; its parameters may be sharded.
            write_model: writes the model's folder, given a place and its full tensors, or their outline on the meta device
                where every worker writes its part of them.
            adapted: whether the model has adapters.

        Raises:
            InputError: for a full disk and the like; the checkpoints before are intact.
        """
        self._refuse_links()
        # Adapters are written in another form than they are held in, which takes whole tensors.
        if isinstance(model, FSDPModule) and not adapted:
            self._save_shards(model, optimizer, progress, write_model)
            return
        parameters = {name: whole(tensor) for name, tensor in _own(model).items()}
        moments = {name: whole(tensor) for name, tensor in _moments(model, optimizer).items()}
        if self.workers.first:
            name, before = self._begin(progress)
            with new_folder(self.place(name)) as partial:
                write_model(partial, parameters)
                _write_state(partial, progress, write_tensors(partial / OPTIMIZER, moments))
            self._end(name, before, progress)
        self.workers.wait()

    def _begin(self, progress: Progress) -> tuple[str, dict[str, str]]:
        """The name of a new checkpoint, and the pointers of those before it; what neither names is removed."""
        name = f"step-{progress.step:08d}"
        again = self.pointers.get("last") == name  # as where a signal comes at a step that is saved anyhow
        before = self._before if again else self.pointers
        self._keep({*self.pointers.values(), *before.values()})
        return name, before

    def _end(self, name: str, before: dict[str, str], progress: Progress) -> None:
        """Let a checkpoint that is written be the last, and the best if `progress` says so."""
        best = f"step-{progress.best_step:08d}" if progress.best_value is not None else None
        self._point({"last": name} | ({"best": best} if best else {}), before)

    def _save_shards(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        write_model: Callable[[Path, Mapping[str, Tensor]], None],
    ) -> None:
        """Write a checkpoint of a sharded model: the first worker all but the tensors, every worker its part of these.

        What goes wrong on one worker is raised by all of them, and nothing stays of the checkpoint.
        """
        workers = self.workers
        if not workers.first:
            where, fault = workers.gathered(("", ""))[0]
            _raise(fault)
            self._write_parts(Path(where), model, optimizer)
            _raise(workers.gathered(("", ""))[0][1])
            return
        waiting = True  # whether the others wait to be told
        try:
            name, before = self._begin(progress)
            with new_folder(self.place(name)) as partial:
                write_model(partial, _outline(model))
                workers.gathered((str(partial), ""))
                waiting = False  # from here on all raise alike
                weights, moments = self._write_parts(partial, model, optimizer)
                waiting = True
                record_weights(partial, write_index(partial / WEIGHTS, weights))
                _write_state(partial, progress, write_index(partial / OPTIMIZER, moments))
            self._end(name, before, progress)
        except Exception as error:
            if waiting:
                workers.gathered(("", str(error) or type(error).__name__))
            raise
        workers.gathered(("", ""))

    def _write_parts(
        self, place: Path, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[list[Written], list[Written]]:
        """Write this worker's part of the weights and of the optimiser's state; what all wrote."""
        weights = self.workers.gathered(write_shard(place / WEIGHTS, _own(model), self.workers))
        moments = self.workers.gathered(write_shard(place / OPTIMIZER, _moments(model, optimizer), self.workers))
        _raise(next((part.fault for part in (*weights, *moments) if part.fault), ""))
        return weights, moments

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress | None:
        """Load the last checkpoint into model and optimiser; None where there is none yet.

        Where it, or the best, is damaged, the newest before it that is whole is taken, and `fault` says why.

        Raises:
            InputError: naming file and key for whatever is damaged, where no other is whole.
        """
        self._refuse_links()
        self.pointers, self._before, self.fault = self.sound()
        if not self.pointers:
            return None
        self.workers.wait()  # all have found the same
        if self.workers.first:
            if self.fault:
                self._point(self.pointers, {})
            self._keep(
                {*self.pointers.values(), *self._before.values()}
            )  # what a process was removing when it was killed
        place = self.place(self.pointers["last"])
        state = _read_state(place / PROGRESS)
        progress = Progress.of(state["progress"], str(place / PROGRESS))
        if read_card(place).layout.get("name") == OWN and not has_adapters(place):  # under our names, so each by itself
            _fill_from(Stored(place / WEIGHTS), _own(model), place / WEIGHTS)
        else:
            config, tensors = read_parameters(place, merged=False)
            if has_adapters(place):
                tensors |= read_adapters(place, config)[1]
            _fill(_own(model), tensors, place / WEIGHTS)
        if not self.workers.first:
            progress.forget_tallies()  # they are those of all workers together
        if progress.finished and not files_of(place / OPTIMIZER):
            self.cannot_resume = (
                f"{place / OPTIMIZER}: was removed when the run had ended, as training.keep_optimizer=false says, so the run "
                "cannot be extended; train again into another folder, with training.keep_optimizer=true to extend it later"
            )
            return progress
        moments = Stored(place / OPTIMIZER)
        parameters = dict(model.named_parameters())
        for key in sorted(moments.names):
            parameter_name, _, field = key.rpartition("/")
            if parameter_name not in parameters:
                raise InputError(f"{place / OPTIMIZER}: {key} belongs to no parameter; the recipe has changed")
            parameter = parameters[parameter_name]
            optimizer.state[parameter][field] = moments.like(key, parameter)
        return progress

    def settle(self, *, keep_optimizer: bool) -> None:
        """Of a finished run, remove the states of the optimiser that nothing continues from.

        Arguments:
            keep_optimizer: keep that of the last checkpoint; a run continues from no other.
        """
        self._refuse_links()
        if self._before:
            self._point(self.pointers, {})
        for name in set(self.pointers.values()):
            if name != self.pointers["last"] or not keep_optimizer:
                with writing_errors(self.place(name)):
                    for path in reversed(files_of(self.place(name) / OPTIMIZER)):  # the index first
                        path.unlink(missing_ok=True)

    def _point(self, pointers: dict[str, str], before: dict[str, str]) -> None:
        """Let these be the checkpoints that count, and remove all others of this run.

        Arguments:
            before: those of before, to fall back on.
        """
        named = pointers | ({"before": before} if before else {})
        replace_file(self.folder / POINTER, json.dumps(named))
        self.pointers, self._before = pointers, before
        self._keep({*pointers.values(), *before.values()})

    def sound(self) -> tuple[dict[str, str], dict[str, str], str]:
        """The newest checkpoints that are whole, those before them, and what is wrong with newer ones.

        Raises:
            InputError: where none is whole.
        """
        faults: list[str] = []
        try:
            pointers, before = pointers_of(self.folder), pointers_before(self.folder)
            choices = [each for each in (pointers, before) if each]
        except InputError as error:  # then the folders themselves tell
            faults.append(str(error))
            choices, before = self._found(), {}
        for each in choices:
            try:
                self._check_whole(self.place(each["last"]), state=True)
                if each.get("best", each["last"]) != each["last"]:
                    self._check_whole(self.place(each["best"]), state=False)
            except InputError as error:
                faults.append(str(error))
            else:
                return each, before if each is not before and not faults else {}, faults[0] if faults else ""
        if faults:
            raise InputError(f"{faults[0]}; no earlier checkpoint is whole")
        return {}, {}, ""

    def _check_whole(self, place: Path, *, state: bool) -> None:
        """Make sure that a checkpoint is what was written; every worker looks at some of its files.

        Raises:
            InputError: on all workers alike, naming the file that is not.
        """
        fault = ""
        try:
            _check_whole(place, state=state, part=self.workers.rank, parts=self.workers.count)
        except InputError as error:
            fault = str(error)
        _raise(next(filter(None, self.workers.gathered(fault)), ""))

    def _found(self) -> list[dict[str, str]]:
        """The checkpoints that are there, the newest first, each with the best of its time."""
        choices = []
        for path in sorted(self._written(), reverse=True):
            with contextlib.suppress(InputError):
                progress = Progress.of(_read_state(path / PROGRESS)["progress"], str(path / PROGRESS))
                best = {"best": f"step-{progress.best_step:08d}"} if progress.best_value is not None else {}
                choices.append({"last": path.name} | best)
        return choices

    def _written(self) -> list[Path]:
        """The checkpoints that are there."""
        place = self.folder / "checkpoints"
        names = place.iterdir() if place.is_dir() else ()
        return [path for path in names if STEP.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]

    def _keep(self, names: set[str]) -> None:
        """Remove the checkpoints of this run that are not among `names`, and nothing else."""
        for path in self._written():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)

    def _refuse_links(self) -> None:
        """Checkpoints are replaced and removed, so they must not be another folder's.

        Raises:
            InputError: where `checkpoints`, or a checkpoint in it, is a symbolic link.
        """
        place = self.folder / "checkpoints"
        for path in (place, *(place.glob("step-*") if place.is_dir() else ())):
            if path.is_symlink() and (path == place or STEP.fullmatch(path.name)):
                raise InputError(
                    f"{path}: is a symbolic link, and what it points to could be removed; put the folder itself there, or "
                    "train "
                    "into another folder"
                )


def _own(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter once, tied ones under their first name; what a model's folder holds."""
    return {name: parameter.data for name, parameter in model.named_parameters()}


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, as parameter name / field."""
    return {
        f"{name}/{field}": value
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _outline(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter once, in its full shape and without numbers."""
    return {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for name, tensor in _own(model).items()}


def _raise(fault: str) -> None:
    """Raise what went wrong on a worker, if anything did."""
    if fault:
        raise InputError(fault)


def _write_state(place: Path, progress: Progress, digests: Mapping[str, str]) -> None:
    """Write where a run stands, once the optimiser's state is written."""
    state = {"format_version": 1, "progress": progress.to_mapping(), "digests": dict(digests)}
    (place / PROGRESS).write_text(json.dumps(state, indent=2))


def _check_whole(place: Path, *, state: bool, part: int = 0, parts: int = 1) -> None:
    """Make sure that a checkpoint is what was written.

    Arguments:
        state: that of training too, from which a run continues; else the model alone.
        part, parts: look at every `parts`-th file with tensors alone, from number `part` on.

    Raises:
        InputError: naming the file that is not.
    """
    card = read_card(place)
    for name, wanted in card.files.items() if part == 0 else ():
        file = place / name
        if name != README and (not file.is_file() or file_digest(file) != wanted):
            fault = "is not what was saved (its checksum differs)" if file.is_file() else "no such file"
            raise InputError(f"{file}: {fault}; copy the file again from its source")
    verify_tensors(place / WEIGHTS, card.digests, part=part, parts=parts)
    if not state:
        return
    values = _read_state(place / PROGRESS)
    progress = Progress.of(values["progress"], str(place / PROGRESS))
    if not progress.finished or files_of(place / OPTIMIZER):
        lost = sorted(
            values["digests"].keys() - verify_tensors(place / OPTIMIZER, values["digests"], part=part, parts=parts)
        )
        if lost:
            raise InputError(f"{place / OPTIMIZER}: missing {', '.join(lost)}; the file is damaged, copy it again")


def _fill_from(stored: Stored, own: Mapping[str, Tensor], file: Path) -> None:
    """Set parameters to what is stored, each read by itself, and of a sharded one this worker's rows alone."""
    _check_fitting({name: stored.shape(name) for name in stored.names}, own, file)
    for name, tensor in own.items():
        tensor.copy_(stored.like(name, tensor))


def _check_fitting(shapes: Mapping[str, tuple[int, ...]], own: Mapping[str, Tensor], file: Path) -> None:
    """Refuse tensors that are not those of the recipe's model."""
    differing = own.keys() ^ shapes.keys()
    if differing:
        raise InputError(f"{file}: {', '.join(sorted(differing))} do not match the recipe's model; resume with its own")
    for name, tensor in own.items():
        if tuple(tensor.shape) != shapes[name]:
            raise InputError(
                f"{file}: {name} is {shapes[name]} where {tuple(tensor.shape)} is wanted; resume with the run's own recipe"
            )


def _fill(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], file: Path) -> None:
    _check_fitting({name: tuple(tensor.shape) for name, tensor in tensors.items()}, own, file)
    for name, tensor in own.items():
        tensor.copy_(like(tensors[name], tensor))


def _read_state(path: Path) -> dict[str, Any]:
    advice = "the run cannot be resumed from it"
    state = read_json_object(path, advice)
    if state.get("format_version") != 1:
        raise InputError(f"{path}: format_version {state.get('format_version')!r} is not known; update regard")
    return {key: as_object(state.get(key), f"{path}.{key}", advice) for key in ("progress", "digests")}
