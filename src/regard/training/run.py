"""`regard.train`: from a recipe to a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints import adopt, read_card, record_files
from regard.checkpoints.adapters import split, write_adapters
from regard.checkpoints.folder import CARD, CONFIG, PREFIX
from regard.errors import InputError
from regard.files import PARTIAL_PREFIX, clear_partial, disk_errors, locked, new_folder, replace_file, sync
from regard.models import MODELS
from regard.models.config import check_memory
from regard.parts import Code, load_code
from regard.rendering import metric_rows, text_table
from regard.tasks.card import README, SEEN, run_section
from regard.tasks.loading import POINTER, load
from regard.tasks.predictor import Predictor
from regard.tasks.preparation import READY, Prepared, examples_named, is_prepared
from regard.tasks.spec import spec_of
from regard.tasks.task import Task
from regard.training.callbacks import Callback, ProgressBar, in_notebook, tracker_of
from regard.training.checkpoint import OPTIMIZER, PROGRESS, Checkpoints, JsonLines, Progress
from regard.training.loop import Loop
from regard.training.optimizers import build_optimizer, freeze, give_adapters
from regard.training.precision import compiled, denormals_flushed, recompute_blocks, resolve
from regard.training.recipe import Recipe, differences, folder_of, read_recipe, write_recipe
from regard.training.settings import LIMITS, TrainingSettings
from regard.training.validation import evaluation_loss, judged_names, losses_by_group, names_of_each
from regard.training.workers import Workers, joined

RECIPE = "recipe.yaml"
MAY_CHANGE = (
    *(f"training.{name}" for name in (*LIMITS, "patience", "log_every", "save_minutes", "keep_optimizer")),
    "generation",
)
"""The settings that a resumed run may change: its limits, and those that do not affect the training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """A finished run.

    Arguments:
        folder: of the run, with the model of the best checkpoint, the recipe and the log.
        metrics: of the best checkpoint on the validation set.
        steps: the number of updates; `best_step` is that of the model in the folder.
        seconds: of training, also before a resume.
        reason: why the run ended.
        words: display names of metrics that have one.
    """

    folder: Path
    metrics: dict[str, float]
    steps: int
    best_step: int
    seconds: float
    reason: str
    words: dict[str, str] = field(default_factory=dict, repr=False)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values for display, by `print` and in notebooks."""
        return [
            ("model", str(self.folder)),
            ("steps", f"{self.steps:,} ({self.reason}); the best is from step {self.best_step:,}"),
            ("seconds", f"{self.seconds:.1f}"),
            *metric_rows(self.metrics, self.words),
        ]

    def __str__(self) -> str:
        return text_table(self.rows())

    def _repr_html_(self) -> str:
        from regard.web import html_table

        return html_table(self.rows())

    def load(self) -> Any:
        """The trained model as a predictor, as from `regard.load` with the folder."""
        return load(self.folder)


def train(
    recipe: Recipe | Mapping[str, Any] | str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    output: str | os.PathLike[str],
    data: Sequence[Any] | None = None,
    validation: Sequence[Any] | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] | None = None,
    say: Callable[[str], None] | None = None,
    code: Code | None = None,
) -> Trained:
    """Train a model by a recipe, and write it to a folder.

    Arguments:
        recipe: a YAML file, a mapping, or a `Recipe`.
        overrides: `key=value` settings that replace those of the recipe, such as `training.steps=500`.
        output: the folder of the run: a new one, or with `resume` one with a run of the same recipe.
        data, validation: examples in memory, instead of the data that the recipe names: pairs of texts for translation, texts for
            language modelling.
        resume: continue from the last checkpoint. The result is the same, bit for bit, as without interruption (on the same
            machine, with the same threads, workers and versions). A finished run is returned unchanged.
        callbacks: called at every step; None = a `ProgressBar` in a notebook, and nothing elsewhere.
        say: receives messages for the user; None = they are not printed.
        code: your own Python file, or files, with parts that the recipe names (`regard.parts`).

    Returns:
        The finished run; `.load()` returns the model.

    Raises:
        InputError: for a recipe, data or folder that cannot be used, a folder that another process uses for training, or a run
            that diverged; its last good checkpoint is kept.
        Stopped: on SIGINT (Ctrl-C) or SIGTERM, after a checkpoint was written.
    """
    load_code(code)
    resolved = read_recipe(recipe, overrides)
    folder = Path(output)
    tell = say if say is not None else _silent
    watchers = ([ProgressBar()] if in_notebook() else []) if callbacks is None else callbacks
    with ExitStack() as stack:
        stack.enter_context(denormals_flushed())
        workers = stack.enter_context(joined(resolved.training.device))
        stack.enter_context(torch.random.fork_rng())
        talk = tell if workers.first else _silent
        made, empty = not folder.exists(), False
        held: Callable[[], None] = _nobody_else
        if workers.first:
            held = stack.enter_context(locked(folder))
            empty = not any(folder.iterdir())  # asked under the lock: nobody else fills it now
            _claim(folder, resolved, resume)
        workers.wait()
        try:
            with disk_errors(folder):
                prepared = _prepared(resolved, folder, workers, data, validation)
                for note in prepared.notes:
                    talk(note)
                run = _Run(resolved, folder, workers, prepared, watchers, talk, held)
        except InputError:
            held()  # what is missing may be so because the folder is
            if workers.first:
                _let_go(folder, made=made and empty, empty=empty)
            raise
        try:
            with disk_errors(folder):
                return run.finish()
        except InputError:
            held()
            raise


class _Run:
    """The parts of one run, wired."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        workers: Workers,
        prepared: Prepared[Task],
        callbacks: Sequence[Callback],
        talk: Callable[[str], None],
        held: Callable[[], None],
    ) -> None:
        settings = recipe.training
        self.held = held
        self.recipe, self.folder, self.workers, self.prepared = recipe, folder, workers, prepared
        self.task, self.kind = prepared.task, spec_of(recipe.task)
        self.talk = talk
        seen: dict[str, Any] = {"training": len(prepared.train), "validation": len(prepared.validation)}
        counts = self.task.counts(prepared.train)
        self.noted = recipe.to_mapping() | {SEEN: seen | ({"classes": counts} if counts else {})}
        self.of_each = names_of_each(self.kind.predictor.metrics_of_each, self.task, settings.best)
        self.config = recipe.model_config(prepared.task.model_settings(), prepared.task.settings_of_some())
        self.model = self._begun()
        dtype, chosen = resolve(settings.precision, workers.device)
        talk(
            f"{self.config.model_type}: {sum(p.numel() for p in self.model.parameters()):,} parameters; "
            f"{self.task.describe(prepared.train, prepared.validation)}."
        )
        talk(f"precision: {chosen}; {torch.get_num_threads()} threads; {workers.count} worker(s).")
        self._apply(settings)
        wrapped = workers.wrapped(self.model, settings.parallel)
        optimizer = build_optimizer(self.model, settings)
        self.checkpoints = Checkpoints(folder, workers)
        progress = self.checkpoints.restore(self.model, optimizer)
        self.resumed = progress is not None
        if progress is not None:
            talk(f"going on from step {progress.step:,}.")
        if self.checkpoints.fault:
            place = self.checkpoints.place(self.checkpoints.pointers["last"])
            talk(
                f"warning: a checkpoint is damaged: {self.checkpoints.fault}; {place} is intact, and the run continues from "
                "it."
            )
        progress = progress or Progress()
        log = JsonLines(folder / "log.jsonl", progress.log_bytes, held) if workers.first else None
        if log is not None and log.lost:
            talk(f"warning: {log.path} has lost its last {log.lost:,} bytes; lines of it are missing.")
        watching = list(callbacks)
        tracker = tracker_of(settings.tracker, folder) if workers.first else None
        if tracker is not None:
            watching.append(tracker)
        for callback in watching if workers.first else ():
            opened = getattr(callback, "opened", None)  # classes with the other methods alone are callbacks too
            if opened is not None:
                opened(folder, prepared.validation)
        self.loop = Loop(
            task=prepared.task,
            model=self.model,
            wrapped=wrapped,
            optimizer=optimizer,
            settings=settings,
            seed=recipe.seed,
            data=prepared.train,
            workers=workers,
            dtype=dtype,
            progress=progress,
            log=log,
            callbacks=watching,
            evaluate=self._evaluate,
            save=self._save,
            named=partial(examples_named, folder / "data"),
            cannot_resume=self.checkpoints.cannot_resume,
            say=talk,
        )
        self.metrics: dict[str, float] = {}

    def _begun(self) -> Any:
        """The model before its first step, on its device: initialised with the seed, then with pre-trained parameters."""
        recipe = self.recipe
        check_memory(MODELS[recipe.model["name"]].model, self.config)
        torch.manual_seed(recipe.seed)
        model: Any = MODELS[recipe.model["name"]].model(self.config)
        self.task.check(model, self.prepared.train, self.prepared.validation)
        start = recipe.model.get("pretrained")
        if start is not None:
            layers = recipe.model.get("pretrained_layers")
            self.talk(adopt(model, folder_of(start), layers=layers))
            if recipe.adapters is not None:
                self.talk(give_adapters(model, recipe.adapters, folder_of(start), layers))
        return model.to(self.workers.device)

    def _apply(self, settings: TrainingSettings) -> None:
        """Apply the settings for compilation, activation checkpointing and frozen parameters."""
        if settings.activation_checkpointing:
            self.talk(f"activations of {recompute_blocks(self.model)} blocks are computed again in the backward pass.")
        if settings.compile:
            self.talk(compiled(self.model, self.workers.device))
        if settings.frozen:
            self.talk(f"{freeze(self.model, settings.frozen):,} of these parameters are frozen.")

    def finish(self) -> Trained:
        """Train to the end, and copy the model of the best checkpoint to the folder of the run."""
        progress = self.loop.progress
        self.model.train()
        with self.loop.signals():
            self.loop.run()
        if self.workers.first:
            self.held()
            self._publish(progress)
            self.checkpoints.settle(keep_optimizer=self.recipe.training.keep_optimizer)
            self.talk(
                f"{self.folder} holds the examples trained on too, in data/; `regard export {self.folder} FOLDER` writes "
                "what "
                "predicting needs alone, to be given away."
            )
        self.workers.wait()
        metrics = _metrics_of(self.folder)
        if self.workers.first and self.kind.predictor.remarks is not Predictor.remarks:
            for line in load(self.folder).remarks(self.prepared.validation):
                self.talk(line)
        return Trained(
            folder=self.folder,
            metrics=metrics,
            steps=progress.step,
            best_step=progress.best_step,
            seconds=progress.seconds,
            reason=progress.finished,
            words=self.task.metric_words(),
        )

    def _evaluate(self) -> dict[str, float]:
        validation = self.prepared.validation
        metrics = evaluation_loss(self.loop, validation)
        metrics |= losses_by_group(self.loop, self.task, validation)
        predictor, settings = self.kind.predictor, self.recipe.training
        # A sharded model answers only where all workers ask it.
        always = predictor.validates_all and settings.parallel == "ddp"
        count = len(validation) if always else min(settings.evaluate_generated, len(validation))
        if count:
            names = [*judged_names(self.kind.metric_names, self.task), *self.of_each]
            # Only the first worker judges; the others get to know what it found.
            found = self._judged(count) if self.workers.first else {}
            numbers = self.workers.summed(*(found.get(name, 0.0) for name in names))
            there = self.workers.summed(*(float(name in found) for name in names))
            metrics |= {name: value for name, value, known in zip(names, numbers, there, strict=True) if known}
        if settings.best not in metrics:
            raise InputError(
                f"training.best is {settings.best!r}, which the validation data says nothing about; choose from "
                f"{', '.join(metrics)}"
            )
        self.metrics = metrics
        self._tell_evaluated(metrics)
        hidden = {*self.of_each} - {settings.best}
        return {name: value for name, value in metrics.items() if name not in hidden}

    def _tell_evaluated(self, metrics: Mapping[str, float]) -> None:
        """Call the callbacks with the current model; random numbers that they sample do not affect the training."""
        if not self.workers.first or self.recipe.training.parallel != "ddp":
            return
        for callback in self.loop.callbacks:
            evaluated = getattr(
                callback, "evaluated", None
            )  # classes with the other four methods alone are callbacks too
            if evaluated is not None:
                with torch.random.fork_rng():
                    evaluated(self.kind.predictor(self.model, self.task), dict(metrics), self.loop.progress)

    def _judged(self, count: int) -> dict[str, float]:
        predictor: Predictor[Task] = self.kind.predictor(self.model, self.task)
        device, dtype = self.workers.device.type, self.loop.dtype
        with torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
            return predictor.validate(self.prepared.validation, count)

    def _save(self) -> None:
        def write(place: Path, tensors: Mapping[str, Tensor]) -> None:
            base, adapters = split(self.model, tensors)
            self.task.write(place, self.config, base, recipe=self.noted, metrics=self.metrics)
            settings = self.recipe.adapters
            if settings is not None:
                start = str(self.recipe.model["pretrained"]).removeprefix(PREFIX)
                write_adapters(place, self.config, adapters, alpha=settings.alpha, dropout=settings.dropout, base=start)
            record_files(place)

        self.held()
        adapted = self.recipe.adapters is not None
        self.checkpoints.save(self.model, self.loop.optimizer, self.loop.progress, write, adapted=adapted)

    def _publish(self, progress: Progress) -> None:
        """Move a copy of the best checkpoint's model to the folder of the run, file by file.

        config.json is removed first and written last: while it is missing, `load` takes the checkpoint itself.
        """
        place = self.checkpoints.place(self.checkpoints.pointers["best"])
        staging = self.folder / ".model"
        shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed here
        if self.recipe.adapters is not None:  # opened, they would be merged
            with new_folder(staging) as partial:
                shutil.copytree(place, partial, ignore=shutil.ignore_patterns(OPTIMIZER, PROGRESS), dirs_exist_ok=True)
        else:
            best = load(place)
            best.recipe = self.noted
            best.task = self.task
            best.save(staging)
        with (staging / README).open("a", encoding="utf-8") as card:
            card.write(run_section())
        record_files(staging)
        sync(staging / README)
        sync(staging / CARD)
        (self.folder / CONFIG).unlink(missing_ok=True)
        sync(self.folder)
        for path in sorted(staging.rglob("*"), key=lambda p: (p == staging / CONFIG, str(p))):
            if path.is_file():
                target = self.folder / path.relative_to(staging)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
                sync(target.parent)
        shutil.rmtree(staging, ignore_errors=True)


def _prepared(
    recipe: Recipe,
    folder: Path,
    workers: Workers,
    data: Sequence[Any] | None,
    validation: Sequence[Any] | None,
) -> Prepared[Any]:
    """The data, prepared by the first worker and opened by all."""

    def run() -> Prepared[Any]:
        return spec_of(recipe.task).prepare(
            folder=folder / "data", seed=recipe.seed, given=data, given_validation=validation, **recipe.sections
        )

    prepared = run() if workers.first else None
    workers.wait()
    return prepared if prepared is not None else run()


def _claim(folder: Path, recipe: Recipe, resume: bool) -> None:
    """Create the folder of this run, or check that it is.

    Raises:
        InputError: if it holds another run, or a run without `resume`, or if `data` or `checkpoints` in it is not a folder of the
            run.
    """
    path = folder / RECIPE
    for place in (folder / "data", folder / "checkpoints"):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            what = "a symbolic link, and what it points to could be removed" if place.is_symlink() else "no folder"
            raise InputError(f"{place}: is {what}; put the folder itself there, or train into another folder")
    if path.is_file() and is_prepared(folder / "data"):  # else it never began, and has nothing to lose
        if not resume:
            raise InputError(
                f"{folder}: holds a run already; add --resume (resume=True) to continue it, or choose another folder"
            )
        changed = [key for key in differences(read_recipe(path), recipe) if not key.startswith(MAY_CHANGE)]
        if changed:
            raise InputError(
                f"{folder}: the recipe differs from the run's own in {', '.join(changed)}; "
                "resume with the same settings, or choose another folder"
            )
    elif not path.is_file() and any(not path.name.startswith(PARTIAL_PREFIX) for path in folder.iterdir()):
        raise InputError(f"{folder}: is not empty and holds no run; choose another folder")
    for place in (folder, folder / "data", folder / "checkpoints"):
        clear_partial(place)
    replace_file(path, write_recipe(recipe))
    if not (folder / README).exists():
        replace_file(folder / README, "# A run that has not ended yet\n\n" + run_section())


def _let_go(folder: Path, *, made: bool, empty: bool) -> None:
    """Clear a folder in which nothing was trained yet, so that it can be used after the recipe is corrected.

    Arguments:
        made: whether this call created the folder; then it is removed.
        empty: whether this call created everything in it; then that is removed.
    """
    if (folder / POINTER).is_file():
        return
    if made:
        shutil.rmtree(folder, ignore_errors=True)
    elif empty:
        for path in folder.iterdir():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    else:
        (folder / "data" / READY).unlink(missing_ok=True)


def _metrics_of(folder: Path) -> dict[str, float]:
    return dict(read_card(folder).metrics)


def _silent(_: str) -> None:
    """Ignore the message."""


def _nobody_else() -> None:
    """Only the first worker writes."""
