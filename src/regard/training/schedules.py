"""Learning rates as pure functions of the step; apart from the optimisers, because their settings name the schedules."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["inverse_square_root", "linear", "cosine", "constant"]


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
        steps: the length of the run in updates, perhaps an estimate; linear and cosine need it.

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
