"""The training loop of all tasks, on torch alone."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from regard.data.batching import Batches
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers.embeddings import NotFinite
from regard.tasks.task import Batch, LossSum, Task
from regard.training.callbacks import Callback
from regard.training.checkpoint import JsonLines, Progress, Tally
from regard.training.settings import TrainingSettings, learning_rate
from regard.training.validation import means
from regard.training.workers import Workers, whole


class Stopped(KeyboardInterrupt):
    """Training was stopped by a signal, after a checkpoint was written.

    Arguments:
        number: of the signal, such as `signal.SIGTERM`.
        step: of the checkpoint.
    """

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; the checkpoint of step {step:,} is written")
        self.number = number
        self.step = step


@dataclass(kw_only=True, slots=True, eq=False)
class Loop:
    """Trains a model until one of the limits in its settings is reached.

    Everything random is a function of the seed and the number of the update: the order of batches (`Batches`), and dropout, whose
    generator is seeded before each batch. So a resumed run gives the same result as a run without interruption.

    Arguments:
        model: the model to save and evaluate; `wrapped` is the same model, as it is called in training.
        step: calls the model: forward with the chosen precision.
        evaluate: computes the validation metrics, with `loss`; every worker calls it.
        save: writes a checkpoint of the current state; every worker calls it.
        cannot_resume: why a finished run that was restored cannot continue; empty if it can.
        say: receives messages for the user.
        named: the names of rows of `data`, for messages.
    """

    task: Task
    model: nn.Module
    wrapped: nn.Module
    optimizer: torch.optim.Optimizer
    settings: TrainingSettings
    seed: int
    data: TokenStore
    workers: Workers
    dtype: torch.dtype
    progress: Progress
    log: JsonLines | None
    callbacks: Sequence[Callback]
    evaluate: Callable[[], Mapping[str, float]]
    save: Callable[[], None]
    cannot_resume: str = ""
    say: Callable[[str], None] | None = None
    named: Callable[[np.ndarray], str] = lambda rows: f"{len(rows):,} examples"
    auxiliary: Mapping[str, np.ndarray] = field(init=False, default_factory=dict)
    asked_to_stop: int = field(init=False, default=0)
    saved: float = field(init=False, default=0.0)
    saved_step: int = field(init=False, default=0)
    gradient_norm: float = field(init=False, default=0.0)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """A context in which the first SIGINT or SIGTERM stops `run` after an update and a checkpoint, and a second at once.

        It only works in the main thread, which receives signals in Python. With several workers a signal to one of them is
        enough, and a second one has no effect, because torchrun forwards signals that the terminal has already sent.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, _: Any) -> None:
            if self.asked_to_stop and self.workers.count == 1:
                raise KeyboardInterrupt
            self.asked_to_stop = self.asked_to_stop or number

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self) -> None:
        """Train until a limit is reached; `progress.finished` is then the reason.

        Raises:
            InputError: if the loss, its gradient or a parameter is not finite; the last checkpoint was written before that. Or if
                the run has to continue and `cannot_resume` says why it cannot.
            Stopped: after a signal, see `signals`.
        """
        progress, started = self.progress, time.monotonic() - self.progress.seconds
        lengths, labels = self.task.lengths(self.data), self.task.labels(self.data)
        self.auxiliary = self.task.auxiliary_labels(self.data)
        chosen = self.task.epoch_rows(self.data)
        batches = Batches(lengths, maximum_tokens=self.settings.tokens_of_a_batch(lengths), seed=self.seed, rows=chosen)
        total = self._total_steps(batches)
        expected = self._expected_steps(batches, labels, total)
        if progress.finished:  # by limits that may have been widened since
            windows = self._windows(batches.epoch(progress.epoch))
            progress.finished = self._reason_to_stop(len(windows)) or self._out_of_patience()
            if self.cannot_resume and not progress.finished:
                raise InputError(self.cannot_resume)
        self._tell_of_warmup(expected)
        self.saved, self.saved_step = progress.seconds, progress.step
        for callback in self.callbacks if self.workers.first else ():
            prepared = getattr(callback, "prepared", None)  # a callback may have only the first four methods
            if prepared is not None:
                prepared(self.task)
        self._tell("started", self.model, progress, expected)
        try:
            while not progress.finished:
                windows = self._windows(batches.epoch(progress.epoch))
                while progress.window < len(windows) and not progress.finished:
                    before = time.monotonic()
                    tokens = self._update(windows[progress.window], labels, total)
                    progress.window += 1
                    progress.seconds = time.monotonic() - started
                    self._tell("stepped", progress, tokens / max(1e-9, time.monotonic() - before))
                    progress.finished = self._reason_to_stop(len(windows))
                    self._book()
                    number = 0 if progress.finished else self._asked()
                    if number:
                        self._keep()
                        raise Stopped(number, progress.step)
                if progress.window >= len(windows):
                    progress.epoch, progress.window = progress.epoch + 1, 0
        finally:
            self._tell("ended", progress)

    def _tell_of_warmup(self, expected: int | None) -> None:
        """Warn if the learning rate will not reach its peak before the run ends."""
        warmup = self.settings.warmup
        if self.say is None or self.progress.finished or expected is None or expected >= warmup:
            return
        self.say(
            f"warning: training.warmup is {warmup:,} updates and the whole training {expected:,}, so the learning rate ends at "
            f"{100 * expected / warmup:.0f} % of its peak; train longer, or lower training.warmup, such as to "
            f"{max(1, expected // 10):,}"
        )

    def _asked(self) -> int:
        """The signal that one of the workers received, or 0; all workers have to stop at the same update.

        The exchange synchronises a GPU, so with GPUs it is done only every ten updates.
        """
        workers = self.workers
        if workers.count == 1:
            return self.asked_to_stop
        if workers.device.type != "cpu" and self.progress.step % 10:
            return 0
        return workers.largest(self.asked_to_stop)

    def _windows(self, batches: list[np.ndarray]) -> list[list[np.ndarray]]:
        """The batches of an epoch, grouped by update: `accumulate` for every worker; the last group has the remaining ones."""
        size = self.settings.accumulate * self.workers.count
        return [batches[start : start + size] for start in range(0, len(batches), size)]

    def _update(self, window: list[np.ndarray], labels: np.ndarray, total_steps: int | None) -> int:
        """One update from one group of batches; returns its number of labels over all workers.

        The loss of every batch is divided by the tokens of the whole group on all workers, so it does not depend on how they are
        divided into batches and workers. Each further loss is divided by its own labels.
        """
        progress, settings, workers = self.progress, self.settings, self.workers
        total_tokens = int(sum(labels[batch].sum() for batch in window))
        totals = {name: int(sum(own[batch].sum() for batch in window)) for name, own in self.auxiliary.items()}
        rate = learning_rate(
            settings.schedule,
            progress.step + 1,
            peak=settings.learning_rate,
            warmup=settings.warmup,
            steps=self._planned_steps(total_steps, progress.tokens + total_tokens),
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        finite = True
        for number in range(math.ceil(len(window) / workers.count)):
            place = number * workers.count + workers.rank
            # In a last, shorter window some workers have no batch left. They run one with weight 0, because the exchange
            # of gradients needs all workers.
            counts, place = place < len(window), place if place < len(window) else 0
            with workers.gathering(self.wrapped, last=(number + 1) * workers.count >= len(window)):
                # DDP and FSDP average gradients over workers; here their sum is needed.
                loss = self._backward(
                    window[place], (number, workers.rank), workers.count if counts else 0, total_tokens, totals
                )
            if counts:
                finite &= math.isfinite(progress.count(loss))
        # `progress.count` has already synchronised the GPU, so reading the norm adds no waiting.
        self.gradient_norm = self._clipped()
        if workers.largest(not (finite and math.isfinite(self.gradient_norm))):
            self._blame(window, total_tokens, totals)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step += 1
        progress.tokens += total_tokens
        return total_tokens

    def _backward(
        self, rows: np.ndarray, place: tuple[int, int], scale: float, tokens: int, totals: Mapping[str, int]
    ) -> LossSum:
        """Add the gradient of one batch; random numbers depend on the batch's index in the update and on the worker.

        Arguments:
            scale: the factor of this gradient.
            tokens, totals: the number of labels of the whole group, and of each further loss.
        """
        batch: Batch = self.task.training_batch(self.data, rows.tolist(), self.progress.epoch).to(self.workers.device)
        torch.manual_seed(_mixed(self.seed, self.progress.step, *place))
        loss = self._loss(self.wrapped, batch)
        objective = loss.total * (scale / tokens)
        for name, part in loss.auxiliary.items():
            objective = objective + part.total * (scale / max(1, totals[name]))
        objective.backward()
        return loss

    def _clipped(self) -> float:
        """The norm of the gradient before clipping; clip it if the settings have a maximum."""
        most, parameters = self.settings.clip_norm, list(self.model.parameters())
        if most is not None:
            return whole(nn.utils.clip_grad_norm_(parameters, most)).item()
        return whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])).item()

    def _blame(self, window: list[np.ndarray], tokens: int, totals: Mapping[str, int]) -> NoReturn:
        """Find the batch of an update that caused a number that is not finite, and end the training.

        Every worker computes each batch again, with the same random numbers, and checks its gradient.
        """
        workers, model = self.workers, self.model
        damaged = workers.first_not_finite(model.named_parameters())
        what, where = "the norm of the gradient is not finite", self.named(np.concatenate(window))
        for place, rows in enumerate(window):
            self.optimizer.zero_grad(set_to_none=True)
            with workers.gathering(self.wrapped, last=True):
                found = self._backward(rows, divmod(place, workers.count), 1.0, tokens, totals)
            loss = Progress().count(found)
            name = workers.first_not_finite((name, parameter.grad) for name, parameter in model.named_parameters())
            if name or not math.isfinite(loss):
                what = f"the gradient of {name} holds NaN or infinity" if math.isfinite(loss) else f"the loss is {loss}"
                where = f"batch {place + 1} of the update's {len(window)}, {self.named(rows)}"
                break
        # If a parameter was not finite before this update, no example is the cause.
        self._diverged(
            self.progress.step + 1, f"{what}, as {damaged} holds NaN or infinity" if damaged else f"{what} ({where})"
        )

    def _loss(self, model: nn.Module, batch: Batch) -> LossSum:
        device = self.workers.device.type
        with torch.autocast(device, dtype=self.dtype, enabled=self.dtype != torch.float32):
            return self.task.loss(model, batch, smoothing=self.settings.label_smoothing)

    def _book(self) -> None:
        """Log, evaluate and save if it is time to."""
        progress, settings, ended = self.progress, self.settings, bool(self.progress.finished)
        if ended or progress.step % settings.log_every == 0:
            self._log_training()
        evaluated = ended or progress.step % settings.evaluate_every == 0
        if evaluated:
            self._judge()
        if evaluated or progress.step % settings.save_every == 0 or progress.finished or self._save_is_due():
            self._keep()

    def _keep(self) -> None:
        """Write a checkpoint of the current state, unless a number in it is not finite."""
        self._collect()
        if not self._finite():
            self._diverged(self.progress.step, "a parameter is not finite")
        if self.log is not None:
            self.progress.log_bytes = self.log.settled()
        self.save()
        self.saved, self.saved_step = self.progress.seconds, self.progress.step

    def _save_is_due(self) -> bool:
        minutes = self.settings.save_minutes
        return minutes is not None and self._seconds() - self.saved >= 60 * minutes

    def _finite(self) -> bool:
        """Whether the sums of losses on all workers, and all parameters, are finite."""
        with torch.no_grad():
            bad = sum(not bool(torch.isfinite(whole(p).sum(dtype=torch.float64))) for p in self.model.parameters())
        loss = self.progress.loss_sum if self.workers.first else 0.0
        return self.workers.summed(float(bad) + (not math.isfinite(loss)))[0] == 0

    def _diverged(self, step: int, what: str) -> NoReturn:
        last = (
            f"the checkpoint of step {self.saved_step:,} is kept" if self.saved_step else "there was no checkpoint yet"
        )
        raise InputError(
            f"training diverged at step {step:,}: {what}; this state was not saved, and {last}. "
            f"Lower training.learning_rate, which is {self.settings.learning_rate:g}, lengthen training.warmup, or set "
            "training.clip_norm"
        )

    def _log_training(self) -> None:
        progress = self.progress
        own, auxiliary = self._tallies()
        loss, accuracy = means(own)
        further: dict[str, float] = {}
        for name, tally in auxiliary.items():
            mean, right = means(tally)
            loss += mean
            further |= self.task.auxiliary_metrics(name, mean, right)
        gradient: dict[str, Any] = {}
        if self.settings.clip_norm is not None:
            gradient = {"gradient_norm": self.gradient_norm, "clipped": self.gradient_norm > self.settings.clip_norm}
        self._write(
            {
                "event": "train",
                "step": progress.step,
                "epoch": progress.epoch,
                "loss": loss,
                "accuracy": accuracy,
                **further,
                "learning_rate": self.optimizer.param_groups[0]["lr"],
                **gradient,
                "tokens": progress.tokens,
                "seconds": round(progress.seconds, 3),
            }
        )

    def _collect(self) -> None:
        """Sum the tallies of all workers on the first, whose progress is stored in checkpoints."""
        progress = self.progress
        (loss, tokens, correct), auxiliary = self._tallies()
        if self.workers.first:
            progress.loss_sum, progress.loss_tokens, progress.correct, progress.auxiliary = (
                loss,
                tokens,
                correct,
                auxiliary,
            )

    def _tallies(self) -> tuple[Tally, dict[str, Tally]]:
        """The sums of the tallies of all workers, those of further losses by name; the tallies are reset."""
        progress = self.progress
        own, *others = self.workers.added(progress.tallies(list(self.auxiliary)))
        progress.forget_tallies()
        return own, dict(zip(self.auxiliary, others, strict=True))

    def _judge(self) -> None:
        """Evaluate, update the best result, and stop after `patience` evaluations without a better one."""
        progress, settings = self.progress, self.settings
        self.model.eval()
        try:
            with torch.no_grad():
                numbers = dict(self.evaluate())
        except NotFinite as error:
            self._diverged(progress.step, f"in validation {str(error).partition(';')[0]}")
        self.workers.scattered(self.model)
        self.model.train()
        self._write({"event": "validation", "step": progress.step, "epoch": progress.epoch, **numbers})
        value, loss = numbers[settings.best], numbers["loss"]
        if not (math.isfinite(value) and math.isfinite(loss)):
            self._diverged(progress.step, f"the validation loss is {loss}, {settings.best} {value}")
        lower = settings.best == "loss"
        best = progress.best_value
        better = best is None or (value < best if lower else value > best)
        if better or (value == best and progress.best_loss is not None and loss < progress.best_loss):
            progress.best_value, progress.best_loss, progress.best_step, progress.worse = value, loss, progress.step, 0
        else:
            progress.worse += 1
        progress.finished = progress.finished or self._out_of_patience()

    def _out_of_patience(self) -> str:
        settings, progress = self.settings, self.progress
        if settings.patience is None or progress.worse < settings.patience:
            return ""
        return f"no better {settings.best} in {progress.worse} evaluations"

    def _reason_to_stop(self, windows: int) -> str:
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return f"{settings.steps} steps done"
        done = progress.epoch + progress.window / windows
        if settings.epochs is not None and done >= settings.epochs:
            return f"{settings.epochs:g} epochs done"
        if settings.tokens is not None and progress.tokens >= settings.tokens:
            return f"{settings.tokens:,.0f} tokens done"
        if settings.seconds is not None and self._seconds() >= settings.seconds:
            return f"{settings.seconds:g} seconds done"
        return ""

    def _seconds(self) -> float:
        """Seconds of training by the first worker's clock, so that all stop at the same update."""
        if self.workers.count == 1:
            return self.progress.seconds
        return self.workers.summed(self.progress.seconds if self.workers.first else 0.0)[0]

    def _total_steps(self, batches: Batches) -> int | None:
        limits = [] if self.settings.steps is None else [self.settings.steps]
        if self.settings.epochs is not None:
            limits.append(math.ceil(self.settings.epochs * len(self._windows(batches.epoch(0)))))
        return min(limits) if limits else None

    def _planned_steps(self, total_steps: int | None, tokens: int) -> float | None:
        """The number of updates of the run, for the learning rate.

        Limits in tokens and seconds are converted to updates by the share that is already used.

        Arguments:
            tokens: the number of trained tokens after the next update.
        """
        settings, step = self.settings, self.progress.step + 1
        planned: list[float] = [] if total_steps is None else [total_steps]
        if settings.tokens is not None:
            planned.append(step * max(1.0, settings.tokens / tokens))
        if settings.seconds is not None:
            used = self._seconds() / settings.seconds
            planned.append(step * max(1.0, 1 / used) if used > 0 else math.inf)
        return min(planned) if planned else None

    def _expected_steps(self, batches: Batches, labels: np.ndarray, total_steps: int | None) -> int | None:
        """The number of updates to display; a limit in tokens is converted by the average tokens of an update."""
        if self.settings.tokens is None:
            return total_steps
        first = batches.epoch(0)
        each = sum(int(labels[batch].sum()) for batch in first) / len(self._windows(first))
        return min(math.ceil(self.settings.tokens / each), total_steps or sys.maxsize)

    def _write(self, event: Mapping[str, Any]) -> None:
        if self.log is not None:
            self.log.write(event)
        self._tell("logged", event)

    def _tell(self, what: str, *arguments: Any) -> None:
        for callback in self.callbacks if self.workers.first else ():
            getattr(callback, what)(*arguments)


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, by hashing them."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
