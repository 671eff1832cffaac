"""The progress of a run, its log (one line per event, none twice), and its checkpoints.

A checkpoint is a complete model folder with the state of training. A pointer file names the current checkpoints:

    checkpoints/step-00000500/   config.json, model.safetensors, ... as any model folder; optimizer.safetensors, progress.json
    checkpoints.json             {"last": "step-00000500", "best": "step-00000400", "before": {"last": "step-00000400", ...}}

With FSDP, every worker writes its shard of the model (`regard.training.shards`), in Regard's own layout.

A checkpoint is written to a new folder and synced to disk; then the pointer file is replaced; then older checkpoints that it no
longer names are removed. A run that is killed at any moment continues from the checkpoint that the pointer file names. Only
folders with the name of a checkpoint, `step-` and eight digits, are ever removed; a copy under another name stays, and symbolic
links are refused.

During a run the checkpoint before the last one is kept too, under `before`: if the last one is damaged on disk, the run continues
from the one before it, with a message. It is removed before the next checkpoint is written, so that the folder never holds more
checkpoints than while one is written; and when the run ends.
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
from regard.structure import finite, from_mapping, renamed
from regard.tasks.card import README
from regard.tasks.loading import POINTER, pointers_before, pointers_of
from regard.tasks.task import LossSum
from regard.training.shards import Stored, Written, files_of, write_index, write_shard
from regard.training.workers import Workers, like, whole

Tally = tuple[float, int, int]
"""The sum of a loss, its number of labels, and how many of them were predicted correctly."""


@renamed(beside="auxiliary")
@dataclass(kw_only=True, slots=True)
class Progress:
    """The counters of a run. With them, the parameters and the optimiser's state, a run continues bit for bit.

    Arguments:
        step: the number of updates.
        epoch, window: the position of the next update: the pass over the data, and the group of batches in it.
        tokens: the number of target tokens in all updates.
        seconds: the training time, with the time before a resume.
        loss_sum, loss_tokens, correct: the sum of the loss, its labels and the correct predictions since the last log line.
        auxiliary: the same three numbers of each auxiliary loss, by name.
        best_value, best_step: the best evaluation so far; the value is None before the first one.
        best_loss: the validation loss of that evaluation, which decides between equal values.
        worse: the number of evaluations since the best one.
        log_bytes: the length of log.jsonl; on resuming, the lines that a killed process wrote after it are cut off.
        finished: the reason why the run ended; empty before that.
    """

    step: int = 0
    epoch: int = 0
    window: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_tokens: int = 0
    correct: int = 0
    auxiliary: dict[str, Tally] = field(default_factory=dict)
    best_value: float | None = None
    best_step: int = 0
    best_loss: float | None = None
    worse: int = 0
    log_bytes: int = 0
    finished: str = ""

    def count(self, loss: LossSum) -> float:
        """Add the losses of a batch to the tallies; return their sum, which is finite if all of them are."""
        own = whole(loss.total).item()
        self.loss_sum += own
        self.loss_tokens += loss.tokens
        self.correct += int(loss.correct)
        for name, part in loss.auxiliary.items():
            total, labels, right = self.auxiliary.get(name, (0.0, 0, 0))
            value = whole(part.total).item()
            own += value
            self.auxiliary[name] = (total + value, labels + part.tokens, right + int(part.correct))
        return own

    def tallies(self, names: Sequence[str]) -> list[Tally]:
        """The tally of the main loss, then the tallies of the auxiliary losses with these names."""
        own = (self.loss_sum, self.loss_tokens, self.correct)
        return [own, *(self.auxiliary.get(name, (0.0, 0, 0)) for name in names)]

    def forget_tallies(self) -> None:
        """Reset the tallies, for the next line of the log."""
        self.loss_sum, self.loss_tokens, self.correct, self.auxiliary = 0.0, 0, 0, {}

    def to_mapping(self) -> dict[str, Any]:
        """The counters as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any], where: str) -> Progress:
        """The counters from the JSON values of `to_mapping`; `where` names the file in error messages."""
        return from_mapping(cls, values, where)


class JsonLines:
    """log.jsonl: an append-only log. A resumed run first truncates it to its length at the checkpoint.

    Arguments:
        path: the path of the file.
        size: the number of bytes of the existing file to keep.
        held: called before each write; raises an error if the folder does not belong to this run any more.

    Raises:
        InputError: for a path that cannot be written, or that is a link, a pipe or anything else than a regular file: the target
            of a link must not be truncated.
    """

    def __init__(self, path: Path, size: int, held: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._held = held
        self.lost = 0
        """The number of bytes that are missing from the file; 0 if it is complete."""
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(f"{path}: is not a regular file; remove it, or train into another folder")
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                found = path.stat().st_size
                file.truncate(min(size, found))
        self.lost = max(0, size - found)

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event as a line."""
        self._held()
        with writing_errors(self.path), self.path.open("ab") as file:
            file.write(json.dumps(finite(event), ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def settled(self) -> int:
        """Sync the file to disk and return its length in bytes, which the checkpoint stores."""
        self._held()
        with writing_errors(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()


OPTIMIZER = "optimizer.safetensors"
PROGRESS = "progress.json"
STEP = re.compile(r"step-\d{8}")
"""The names of the folders of checkpoints."""


class Checkpoints:
    """The checkpoints in a run's folder.

    Arguments:
        folder: the run's folder.
        workers: the processes of the run. The first one writes; of a sharded model every worker writes its part.
    """

    def __init__(self, folder: Path, workers: Workers) -> None:
        self.folder = folder
        self.workers = workers
        self.cannot_resume = ""
        """Why the restored run cannot be continued; empty if it can."""
        self.fault = ""
        """What is damaged in the last checkpoint, if the run continued from an earlier one; else empty."""
        self.pointers: dict[str, str] = {}
        """The names of the folders `last` and `best` in checkpoints/; empty before the first checkpoint and before `restore`."""
        self._before: dict[str, str] = {}

    def place(self, name: str) -> Path:
        """The folder of the checkpoint with this name."""
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
        """Write a checkpoint of the current state, make it the last one, and update the best one from `progress`.

        Arguments:
            model: the model without a wrapper; its parameters may be sharded.
            write_model: writes the model's folder, given its path and the full tensors, which are on the meta device if every
                worker writes its part of the values.
            adapted: whether the model has adapters.

        Raises:
            InputError: if it cannot be written, such as for a full disk; the checkpoints before it are intact.
        """
        self._refuse_links()
        # The file format of adapters differs from their parameters and is made from whole tensors, so they are not sharded.
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
        """The name of a new checkpoint, and the pointers to those before it; all other checkpoints are removed."""
        name = f"step-{progress.step:08d}"
        again = self.pointers.get("last") == name  # such as after a signal at a step that had a checkpoint anyway
        before = self._before if again else self.pointers
        self._keep({*self.pointers.values(), *before.values()})
        return name, before

    def _end(self, name: str, before: dict[str, str], progress: Progress) -> None:
        """Make a written checkpoint the last one, and update the best one from `progress`."""
        best = f"step-{progress.best_step:08d}" if progress.best_value is not None else None
        self._point({"last": name} | ({"best": best} if best else {}), before)

    def _save_shards(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        write_model: Callable[[Path, Mapping[str, Tensor]], None],
    ) -> None:
        """Write a checkpoint of a sharded model: every worker writes its part of the tensors, the first one everything else.

        An error on one worker is raised by all of them, and the incomplete checkpoint is removed.
        """
        workers = self.workers
        if not workers.first:
            where, fault = workers.gathered(("", ""))[0]
            _raise(fault)
            self._write_parts(Path(where), model, optimizer)
            _raise(workers.gathered(("", ""))[0][1])
            return
        waiting = True  # whether the other workers wait for a message of this one
        try:
            name, before = self._begin(progress)
            with new_folder(self.place(name)) as partial:
                write_model(partial, _outline(model))
                workers.gathered((str(partial), ""))
                waiting = False  # an error in the next line is raised by all workers
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
        """Write this worker's part of the weights and of the optimiser's state; return the parts of all workers."""
        weights = self.workers.gathered(write_shard(place / WEIGHTS, _own(model), self.workers))
        moments = self.workers.gathered(write_shard(place / OPTIMIZER, _moments(model, optimizer), self.workers))
        _raise(next((part.fault for part in (*weights, *moments) if part.fault), ""))
        return weights, moments

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress | None:
        """Load the last checkpoint into model and optimiser; return its counters, or None if there is no checkpoint.

        If the last or the best checkpoint is damaged, the newest undamaged ones before them are used, and `fault` is the reason.

        Raises:
            InputError: naming the damaged file and key, if no checkpoint is undamaged.
        """
        self._refuse_links()
        self.pointers, self._before, self.fault = self.sound()
        if not self.pointers:
            return None
        self.workers.wait()  # until all workers have read the pointer file, before it is changed
        if self.workers.first:
            if self.fault:
                self._point(self.pointers, {})
            # Finish a removal that was interrupted by a kill.
            self._keep({*self.pointers.values(), *self._before.values()})
        place = self.place(self.pointers["last"])
        state = _read_state(place / PROGRESS)
        progress = Progress.of(state["progress"], str(place / PROGRESS))
        if read_card(place).layout.get("name") == OWN and not has_adapters(place):  # parameters under their own names
            _fill_from(Stored(place / WEIGHTS), _own(model), place / WEIGHTS)
        else:
            config, tensors = read_parameters(place, merged=False)
            if has_adapters(place):
                tensors |= read_adapters(place, config)[1]
            _fill(_own(model), tensors, place / WEIGHTS)
        if not self.workers.first:
            progress.forget_tallies()  # the first worker has the sums of all workers
        if progress.finished and not files_of(place / OPTIMIZER):
            self.cannot_resume = (
                f"{place / OPTIMIZER}: was removed when the run ended (training.keep_optimizer=false), so the run cannot be "
                "extended; train again into another folder, with training.keep_optimizer=true to extend it later"
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
        """Remove the optimiser states of a finished run.

        Arguments:
            keep_optimizer: keep the state of the last checkpoint, from which the run could be extended.
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
        """Write the pointer file and remove all other checkpoints of this run.

        Arguments:
            before: the pointers to fall back to if the last checkpoint is damaged.
        """
        named = pointers | ({"before": before} if before else {})
        replace_file(self.folder / POINTER, json.dumps(named))
        self.pointers, self._before = pointers, before
        self._keep({*pointers.values(), *before.values()})

    def sound(self) -> tuple[dict[str, str], dict[str, str], str]:
        """Find undamaged checkpoints: (the pointers to the newest ones, the pointers before them, what is wrong with newer ones).

        Raises:
            InputError: if there are checkpoints, and all of them are damaged.
        """
        faults: list[str] = []
        try:
            pointers, before = pointers_of(self.folder), pointers_before(self.folder)
            choices = [each for each in (pointers, before) if each]
        except InputError as error:  # the pointer file is damaged: look at the folders of checkpoints instead
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
            raise InputError(f"{faults[0]}; there is no undamaged earlier checkpoint")
        return {}, {}, ""

    def _check_whole(self, place: Path, *, state: bool) -> None:
        """Compare a checkpoint with its checksums; every worker checks some of its files.

        Raises:
            InputError: on all workers, naming a file that differs or is missing.
        """
        fault = ""
        try:
            _check_whole(place, state=state, part=self.workers.rank, parts=self.workers.count)
        except InputError as error:
            fault = str(error)
        _raise(next(filter(None, self.workers.gathered(fault)), ""))

    def _found(self) -> list[dict[str, str]]:
        """Pointers for each checkpoint on disk as `last`, the newest first, with the `best` one at its step."""
        choices = []
        for path in sorted(self._written(), reverse=True):
            with contextlib.suppress(InputError):
                progress = Progress.of(_read_state(path / PROGRESS)["progress"], str(path / PROGRESS))
                best = {"best": f"step-{progress.best_step:08d}"} if progress.best_value is not None else {}
                choices.append({"last": path.name} | best)
        return choices

    def _written(self) -> list[Path]:
        """The folders of checkpoints on disk."""
        place = self.folder / "checkpoints"
        names = place.iterdir() if place.is_dir() else ()
        return [path for path in names if STEP.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]

    def _keep(self, names: set[str]) -> None:
        """Remove the checkpoints of this run that are not in `names`, and nothing else."""
        for path in self._written():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)

    def _refuse_links(self) -> None:
        """Refuse symbolic links: checkpoints are replaced and removed, so they must not belong to another folder.

        Raises:
            InputError: if `checkpoints`, or a checkpoint in it, is a symbolic link.
        """
        place = self.folder / "checkpoints"
        for path in (place, *(place.glob("step-*") if place.is_dir() else ())):
            if path.is_symlink() and (path == place or STEP.fullmatch(path.name)):
                raise InputError(
                    f"{path}: is a symbolic link, and its target could be removed; put the folder itself there, or train "
                    "into another folder"
                )


def _own(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, tied ones under their first name, as in a model's folder."""
    return {name: parameter.data for name, parameter in model.named_parameters()}


def _moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of the optimiser's state, named `parameter/field`."""
    return {
        f"{name}/{field}": value
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _outline(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, in its full shape, on the meta device."""
    return {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for name, tensor in _own(model).items()}


def _raise(fault: str) -> None:
    """Raise the error message of a worker, unless it is empty."""
    if fault:
        raise InputError(fault)


def _write_state(place: Path, progress: Progress, digests: Mapping[str, str]) -> None:
    """Write progress.json, after the optimiser's state."""
    state = {"format_version": 1, "progress": progress.to_mapping(), "digests": dict(digests)}
    (place / PROGRESS).write_text(json.dumps(state, indent=2))


def _check_whole(place: Path, *, state: bool, part: int = 0, parts: int = 1) -> None:
    """Compare a checkpoint with its checksums.

    Arguments:
        state: also check the state of training, which resuming needs; else only the model.
        part, parts: check only every `parts`-th file with tensors, beginning with number `part`.

    Raises:
        InputError: naming a file that differs or is missing.
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
    """Set parameters to the stored tensors, read one at a time; of a sharded parameter only this worker's rows."""
    _check_fitting({name: stored.shape(name) for name in stored.names}, own, file)
    for name, tensor in own.items():
        tensor.copy_(stored.like(name, tensor))


def _check_fitting(shapes: Mapping[str, tuple[int, ...]], own: Mapping[str, Tensor], file: Path) -> None:
    """Refuse tensors whose names or shapes are not those of the recipe's model."""
    differing = own.keys() ^ shapes.keys()
    if differing:
        raise InputError(
            f"{file}: the parameters {', '.join(sorted(differing))} are not both here and in the recipe's model; resume with "
            "the run's own recipe"
        )
    for name, tensor in own.items():
        if tuple(tensor.shape) != shapes[name]:
            raise InputError(
                f"{file}: {name} has the shape {shapes[name]}, not {tuple(tensor.shape)}; resume with the run's own recipe"
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
