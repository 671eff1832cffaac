"""Training runs with published times, to check plans against."""

from __future__ import annotations

from dataclasses import dataclass

from regard.planning.plan import plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A training run as published.

    Arguments:
        model: its name in `PUBLISHED`.
        device, count: the device and the number of devices; 1 where only device hours are published.
        hours: device hours, as published.
        source: where they are published.
        speed: operations per second and device, 6 N D over the time; None where tokens per second are published.
        tokens_per_second: of each device, for this model or the one in `measured`.
        measured: the model to which the published tokens per second belong, where it is another.
    """

    model: str
    device: str
    count: int
    hours: float
    source: str
    speed: float | None = None
    tokens_per_second: float | None = None
    measured: str = ""

    @property
    def utilisation(self) -> float:
        """The fraction of the peak that the published speed is; tokens per second are converted to operations."""
        found = plan(self.measured or self.model, device=self.device)
        per_token = found.exact / found.work.tokens
        speed = self.speed if self.speed is not None else (self.tokens_per_second or 0.0) * per_token
        return speed / found.device.peak[found.format]


_TOUVRON = "Touvron et al. 2023, table 15; 380 tokens a second on each of 2,048 for 65B, section 2.4"

RUNS = (
    Run(
        model="gpt3-175b",
        device="v100-32",
        count=10_000,
        speed=24.6e12,
        hours=14.8 * 24 * 10_000,
        source="Patterson et al. 2021, table 4: 14.8 days on 10,000 V100 at 24.6 teraflops a second",
    ),
    *(
        Run(
            model=f"llama-{size}",
            device="a100-80",
            count=2048,
            tokens_per_second=380,
            measured="llama-65b",
            hours=hours,
            source=_TOUVRON,
        )
        for size, hours in (("7b", 82_432), ("13b", 135_168), ("33b", 530_432), ("65b", 1_022_362))
    ),
)
"""One speed is published for the four Llamas, that of the largest: the others are planned with the same utilisation."""

PETAFLOP_DAYS = {
    "gpt3-125m": 2.60,
    "gpt3-350m": 7.42,
    "gpt3-760m": 15.8,
    "gpt3-1.3b": 27.5,
    "gpt3-2.7b": 55.2,
    "gpt3-6.7b": 139.0,
    "gpt3-13b": 268.0,
    "gpt3-175b": 3640.0,
}
"""Brown et al. 2020, table D.1: operations of the whole training in petaflop/s-days; one is 8.64e19 operations."""
