"""How to train, as data: the `training` and the `adapters` section of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.models.config import check

Schedule = Literal["inverse_square_root", "linear", "cosine", "constant"]
OptimizerName = Literal["adamw", "adam", "sgd", "adagrad", "adadelta", "rmsprop", "adafactor"]

LIMITS = ("steps", "epochs", "tokens", "seconds")
"""The limits of a run; it ends at the first that is reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """The `training` section of a recipe.

    Arguments:
        steps, epochs, tokens, seconds: when to stop: after this number of updates, epochs, target tokens, or seconds of
            training (evaluations included), whichever comes first. A run that ends by seconds is not reproducible bit for
            bit.
        batch_tokens: source plus target tokens of one batch, padding included.
        minimum_batches: minimum number of batches per epoch; for small data `batch_tokens` is lowered to reach it, so that a
            given number of epochs has enough updates.
        accumulate: batches per update on each worker.
        optimizer: `adamw` (decoupled weight decay), `adam`, or what a paper was trained with: `sgd`, `adagrad`, `adadelta` (rho
            0.95, epsilon 1e-6), `rmsprop` (0.95, 1e-8) or `adafactor`, which keeps a row and a column of moments for each matrix
            and takes steps relative to the size of what it changes.
        learning_rate: peak learning rate. AdaDelta's published value is 1.
        betas, epsilon: of `adamw` and `adam`.
        momentum: of `sgd` and `rmsprop`.
        weight_decay: decoupled from the gradient with `adamw` and `adafactor`, else added to it. Biases, norms and vectors are
            not decayed.
        schedule, warmup: schedule of the learning rate, and warm-up in updates. `linear` and `cosine` decay to the end of
            training.
        label_smoothing: epsilon, spread over the whole vocabulary except padding.
        frozen: names of parameters, or of modules, that are not updated, such as `embedding` or `layers.*`; a `*` matches
            anything without a dot.
        clip_norm: maximum norm of the whole gradient; null for no clipping.
        precision: `auto` is bfloat16 if the device supports it natively, else float32.
        compile: run the model through `torch.compile`, with dynamic shapes from the first step.
        activation_checkpointing: keep only the input of each block and recompute the rest in the backward pass: less memory
            for a third more computation, with identical results. For models of blocks.
        evaluate_every: updates between evaluations on the validation set.
        evaluate_generated: number of validation examples to decode at each evaluation, for exact match and BLEU; 0 for none.
            Tasks without generation are always evaluated fully.
        best: the metric that selects the best checkpoint: `loss`, or a metric of the task, such as `bleu` or `accuracy`; ties
            are broken by the validation loss.
        patience: evaluations without a better value before stopping; null never stops early.
        save_every: updates between checkpoints; there is also one at every evaluation, at the end, and on SIGINT or SIGTERM.
        save_minutes: minutes between additional checkpoints; null for none.
        keep_optimizer: keep the optimizer state (with Adam twice the size of the model) in the last checkpoint of a finished
            run, so that the run can be extended later.
        log_every: updates between lines of log.jsonl.
        tracker: an additional log in the run's folder: `tensorboard` event files, an `mlflow` database, or an offline `wandb`
            run of Weights & Biases.
        parallel: under torchrun, `ddp` copies the model to every worker, `fsdp` shards it (FSDP2).
        device: `auto` uses a GPU if there is one.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    steps: int | None = None
    epochs: float | None = None
    tokens: float | None = None
    seconds: float | None = None
    batch_tokens: int = 4096
    minimum_batches: int = 1
    accumulate: int = 1
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Schedule = "inverse_square_root"
    warmup: int = 400
    label_smoothing: float = 0.0
    frozen: tuple[str, ...] = ()
    clip_norm: float | None = 1.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    activation_checkpointing: bool = False
    evaluate_every: int = 500
    evaluate_generated: int = 0
    best: str = "loss"
    patience: int | None = None
    save_every: int = 500
    save_minutes: float | None = None
    keep_optimizer: bool = True
    log_every: int = 50
    tracker: Literal["none", "tensorboard", "mlflow", "wandb"] = "none"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self) -> None:
        check(
            any(getattr(self, name) is not None for name in LIMITS),
            "training.steps",
            self.steps,
            "given, or one of training.epochs, training.tokens and training.seconds",
            "say how long to train, such as training.epochs=10",
        )
        for name in ("batch_tokens", "minimum_batches", "accumulate", "evaluate_every", "save_every", "log_every"):
            value = getattr(self, name)
            check(value >= 1, f"training.{name}", value, "at least 1", "raise it")
        for name in (*LIMITS, "patience", "save_minutes"):
            value = getattr(self, name)
            check(value is None or value > 0, f"training.{name}", value, "above 0", "raise it or leave it out")
        check(self.learning_rate > 0, "training.learning_rate", self.learning_rate, "above 0", "1e-3 is usual")
        check(0 <= self.momentum < 1, "training.momentum", self.momentum, "in [0, 1)", "0.9 is usual")
        check(
            self.momentum == 0 or self.optimizer in ("sgd", "rmsprop"),
            "training.momentum",
            self.momentum,
            f"0 with training.optimizer={self.optimizer}",
            "sgd and rmsprop have one; Adam's is the first of training.betas",
        )
        check(
            self.parallel == "ddp" or self.optimizer != "adafactor",
            "training.optimizer",
            self.optimizer,
            "another with training.parallel=fsdp",
            "its rows and columns are those of whole matrices; adamw is sharded",
        )
        check(self.warmup >= 0, "training.warmup", self.warmup, "0 or more", "400 to 4000 is usual")
        check(
            0 <= self.label_smoothing < 1,
            "training.label_smoothing",
            self.label_smoothing,
            "in [0, 1)",
            "0.1 is usual",
        )
        check(
            self.clip_norm is None or self.clip_norm > 0,
            "training.clip_norm",
            self.clip_norm,
            "above 0",
            "1.0 is usual, null turns clipping off",
        )
        check(
            self.parallel == "ddp" or self.evaluate_generated == 0,
            "training.evaluate_generated",
            self.evaluate_generated,
            "0 with training.parallel=fsdp",
            "judge sharded runs by loss, and decode afterwards with regard evaluate",
        )

    def tokens_of_a_batch(self, lengths: np.ndarray) -> int:
        """`batch_tokens`, lowered for small data until a pass over it has `minimum_batches`.

        Arguments:
            lengths: (N, columns) tokens of each example.
        """
        if self.minimum_batches == 1:
            return self.batch_tokens
        return max(1, min(self.batch_tokens, int(lengths.sum()) // self.minimum_batches))


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterSettings:
    """Low-rank adapters (LoRA, Hu et al. 2021): the trained parameters are frozen, and small matrices next to them are trained.

    Arguments:
        rank: of each adapter; 4 to 64 is usual.
        alpha: the output of each adapter is multiplied by alpha / rank.
        dropout: probability of dropping an entry of an adapter's input in training.
        on: the linear maps with an adapter, by the ends of their names: `query`, `value`, `layers.0.attention.*`, `inner`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    on: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        check(self.rank >= 1, "adapters.rank", self.rank, "at least 1", "4 to 64 is usual")
        check(self.alpha > 0, "adapters.alpha", self.alpha, "above 0", "twice the rank is usual")
        check(0 <= self.dropout < 1, "adapters.dropout", self.dropout, "in [0, 1)", "0.05 is usual")
        check(bool(self.on), "adapters.on", list(self.on), "a list of names", "[query, value] is usual")


def learning_rate(schedule: Schedule, step: int, *, peak: float, warmup: int, steps: float | None = None) -> float:
    """The learning rate of update number `step`, counted from 1.

    All rise linearly to `peak` over `warmup` updates. Then:

        inverse_square_root   peak * sqrt(warmup / step)                        (Vaswani et al. 2017, equation 3)
        linear                peak * (steps - step) / (steps - warmup), reaching 0 at the last update
        cosine                peak * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2
        constant              peak

    The paper's own formula, D^-0.5 min(step^-0.5, step warmup^-1.5), is `inverse_square_root` with
    peak = (D * warmup)^-0.5: 6.99e-4 for D = 512 and 4,000 updates.

    Arguments:
        steps: the length of the run in updates, which can be an estimate; linear and cosine need it.

    >>> round(learning_rate("inverse_square_root", 4000, peak=(512 * 4000) ** -0.5, warmup=4000), 7)
    0.0006988
    """
    if step <= warmup:
        return peak * step / warmup
    if schedule == "constant":
        return peak
    if schedule == "inverse_square_root":
        return peak * math.sqrt(max(warmup, 1) / step)
    if steps is None:
        raise ValueError(f"the {schedule} schedule needs the number of steps")
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return peak * (1 - done) if schedule == "linear" else peak * 0.5 * (1 + math.cos(math.pi * done))
