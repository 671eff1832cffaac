"""The judge of claims on planted effects: how often it is wrong, what it sees, and what other intervals would do.

    python benchmarks/claims_judge.py --record docs/results

Claims have a direction (above 0) and a size (at least 1). The contrast of each seed is the true effect plus noise of median
0, whose middle half is as wide as that of a normal distribution with standard deviation 1. `regard.claims` judges them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from measured import record
from regard.claims.evidence import evidence, fewest
from regard.claims.second_round import Part, SecondRound, judged_parts

Floats = NDArray[np.float64]
SEEDS = range(5, 11)
EFFECTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
SIZE = 1.0
GRID = 0.5
QUARTILE = NormalDist().inv_cdf(0.75)


def shapes() -> dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]]:
    """Noise of median 0: half of it within 0.674 of 0, as of a normal distribution with standard deviation 1."""
    heavy = QUARTILE / stats.t(2).ppf(0.75)
    skew = 1.0
    width = (math.exp(skew * QUARTILE) - math.exp(-skew * QUARTILE)) / (2 * QUARTILE)

    def skewed(draw: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return (np.exp(skew * draw.normal(size=size)) - 1) / width

    def failing(draw: np.random.Generator, size: tuple[int, ...]) -> Floats:
        """One run in five is lost, and is 6 lower; the median of all is 0."""
        middle = NormalDist().inv_cdf(1 - 0.5 / 0.8)
        return draw.normal(size=size) - middle - 6 * (draw.random(size) < 0.2)

    return {
        "normal": lambda draw, size: draw.normal(size=size),
        "heavy-tailed (t, 2 degrees)": lambda draw, size: heavy * draw.standard_t(2, size=size),
        "skewed to the right (lognormal)": skewed,
        "skewed to the left": lambda draw, size: -skewed(draw, size),
        "ties (normal, rounded to halves)": lambda draw, size: np.round(draw.normal(size=size) / GRID) * GRID,
        "one run in five fails": failing,
    }


class Drawn:
    """The contrast as the number of one arm."""

    def __init__(self, numbers: Floats) -> None:
        self.numbers = numbers

    def values(self, arm: str, measure: str, length: int | None = None) -> dict[int, float | None]:
        """Of the row that the measure names."""
        return dict(enumerate(self.numbers[int(measure)].tolist(), start=1))


def part(kind: Any, row: int = 0, **bounds: float) -> Part:
    return Part(says=f"{kind} {row}", kind=kind, contrast=f'value("a", "{row}")', **bounds)


def planted(size: int, seed: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Verdicts by effect, and the worst rates of false ones."""
    draw = np.random.default_rng(seed)
    table: dict[str, Any] = {}
    worst = dict.fromkeys(
        (
            "claim falsely supported",
            "claim falsely contradicted",
            "size falsely supported",
            "size falsely contradicted",
        ),
        0.0,
    )
    for count in SEEDS:
        asked = SecondRound(
            predicted="", minutes=0, seeds=count, parts=(part("direction", above=0.0), part("size", at_least=SIZE))
        )
        for name, noise in shapes().items():
            for effect in EFFECTS:
                numbers = effect + noise(draw, (size, 1, count))
                found = [judged_parts(asked, Drawn(each), range(1, count + 1)) for each in numbers]
                rates = {
                    f"{what} {outcome}": sum(get(each) == outcome for each in found) / size
                    for what, get in (("claim", lambda f: f[0]), ("size", lambda f: f[2][1].outcome))
                    for outcome in ("supported", "contradicted")
                }
                table.setdefault(name, {}).setdefault(str(count), {})[f"{effect:g}"] = rates
                false = {
                    "claim falsely supported": rates["claim supported"] if effect <= 0 else 0.0,
                    "claim falsely contradicted": rates["claim contradicted"] if effect >= 0 else 0.0,
                    "size falsely supported": rates["size supported"] if effect < SIZE else 0.0,
                    "size falsely contradicted": rates["size contradicted"] if effect >= SIZE else 0.0,
                }
                worst = {key: max(value, false[key]) for key, value in worst.items()}
    return table, worst


def several_directions(size: int, seed: int) -> dict[str, float]:
    """Claims of two, three and four directions that are all at their threshold: the share that is contradicted, or supported."""
    draw = np.random.default_rng(seed)
    found: dict[str, float] = {}
    for directions in (2, 3, 4):
        count = fewest(0.05 / directions)
        parts = tuple(part("direction", row, above=0.0) for row in range(directions))
        asked = SecondRound(predicted="", minutes=0, seeds=count, parts=parts)
        for name, together in (("independent", 0.0), ("sharing an arm", 0.5)):
            shared, own = draw.normal(size=(size, 1, count)), draw.normal(size=(size, directions, count))
            numbers = math.sqrt(together) * shared + math.sqrt(1 - together) * own
            outcomes = [judged_parts(asked, Drawn(each), range(1, count + 1))[0] for each in numbers]
            for outcome in ("contradicted", "supported"):
                found[f"{directions} directions, {count} seeds, {name}: falsely {outcome}"] = (
                    outcomes.count(outcome) / size
                )
    return found


def with_a_condition(size: int, seed: int) -> dict[str, float]:
    """A condition on an arm whose noise is that of the contrast: whether choosing by it makes the verdicts wrong."""
    draw = np.random.default_rng(seed)
    asked = SecondRound(
        predicted="", minutes=0, parts=(part("direction", above=0.0), part("condition", 1, at_least=0.0))
    )
    shared, own = draw.normal(size=(size, 1, 5)), draw.normal(size=(size, 1, 5))
    numbers = np.concatenate([shared, 0.8 * shared + 0.6 * own], axis=1)
    outcomes = [judged_parts(asked, Drawn(each), range(1, 6))[0] for each in numbers]
    return {f"falsely {outcome}": outcomes.count(outcome) / size for outcome in ("supported", "contradicted")}


def visible(size: int, seed: int) -> dict[str, float]:
    """How often an effect is seen that is as large as the smallest visible one, the spread being known."""
    draw = np.random.default_rng(seed)
    found: dict[str, float] = {}
    for count in SEEDS:
        spread = np.asarray(stats.norm.ppf((np.arange(count) + 0.5) / count))
        spread /= spread.std(ddof=1)
        effect = evidence(spread.tolist()).visible or math.nan
        asked = SecondRound(predicted="", minutes=0, seeds=count, parts=(part("direction", above=0.0),))
        numbers = effect + draw.normal(size=(size, 1, count))
        seen = [judged_parts(asked, Drawn(each), range(1, count + 1))[0] == "supported" for each in numbers]
        found[f"{count} seeds: effect in standard deviations"] = round(effect, 3)
        found[f"{count} seeds: seen"] = sum(seen) / size
    return found


def other_intervals(size: int, seed: int) -> dict[str, Any]:
    """False verdicts of one-sided 5 % intervals for the mean, the true mean being at the threshold; the worse side."""
    draw = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name, noise in shapes().items():
        large = noise(draw, (2_000_000,))
        mean = 0.0 if "heavy" in name or "normal" in name else float(large.mean())
        for count in (5, 7, 10):
            numbers = noise(draw, (size, count)) - mean
            rates = {
                "t": _worst(*_t(numbers)),
                "sign-flip": _worst(*_sign_flip(numbers)),
                "bootstrap percentile-t": _worst(*_percentile_t(numbers, draw)),
                "bootstrap BCa": _worst(*_bca(numbers, draw)),
            }
            median = numbers + mean
            asked = SecondRound(predicted="", minutes=0, seeds=count, parts=(part("direction", above=0.0),))
            outcomes = [judged_parts(asked, Drawn(each[None]), range(1, count + 1))[0] for each in median]
            rates["sign test of the median"] = max(outcomes.count(o) / size for o in ("supported", "contradicted"))
            found[f"{name}, {count} seeds"] = {key: round(value, 4) for key, value in rates.items()}
    return found


def _worst(above: NDArray[np.bool_], below: NDArray[np.bool_]) -> float:
    return float(max(above.mean(), below.mean()))


def _t(numbers: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    count = numbers.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        score = numbers.mean(1) / (numbers.std(1, ddof=1) / math.sqrt(count))
    limit = stats.t(count - 1).ppf(0.95)
    return score > limit, score < -limit


def _sign_flip(numbers: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    count = numbers.shape[1]
    signs = np.array(
        [[1 if pattern >> k & 1 else -1 for k in range(count)] for pattern in range(2**count)], dtype=float
    )
    sums = numbers @ signs.T
    own = numbers.sum(1, keepdims=True)
    close = 1e-9
    return (sums >= own - close).mean(1) <= 0.05, (sums <= own + close).mean(1) <= 0.05


def _percentile_t(numbers: Floats, draw: np.random.Generator, resamples: int = 999) -> tuple[Any, Any]:
    above, below = [], []
    count = numbers.shape[1]
    for row in numbers:
        chosen = row[draw.integers(0, count, size=(resamples, count))]
        spread = chosen.std(1, ddof=1)
        scores = (chosen.mean(1) - row.mean())[spread > 0] / spread[spread > 0] * math.sqrt(count)
        error = row.std(ddof=1) / math.sqrt(count)
        low, high = np.quantile(scores, [0.05, 0.95]) if len(scores) else (0.0, 0.0)
        above.append(row.mean() - high * error > 0)
        below.append(row.mean() - low * error < 0)
    return np.array(above), np.array(below)


def _bca(numbers: Floats, draw: np.random.Generator, resamples: int = 999) -> tuple[Any, Any]:
    above, below = [], []
    count = numbers.shape[1]
    for row in numbers:
        means = row[draw.integers(0, count, size=(resamples, count))].mean(1)
        share = np.clip((means < row.mean()).mean(), 1 / resamples, 1 - 1 / resamples)
        bias = stats.norm.ppf(share)
        left_out = (row.sum() - row) / (count - 1)
        centred = left_out.mean() - left_out
        spread = (centred**2).sum()
        skew = (centred**3).sum() / (6 * spread**1.5) if spread > 0 else 0.0
        levels = [stats.norm.cdf(bias + (bias + z) / (1 - skew * (bias + z))) for z in stats.norm.ppf([0.05, 0.95])]
        low, high = np.quantile(means, levels)
        above.append(low > 0)
        below.append(high < 0)
    return np.array(above), np.array(below)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4_000, help="claims of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="a folder")
    parser.add_argument("--note", default="", help="on the machine")
    options = parser.parse_args()
    table, worst = planted(options.size, options.seed)
    figures: dict[str, Any] = {f"{key}, the largest of all below": value for key, value in worst.items()}
    figures["the smallest visible effect"] = visible(options.size, options.seed)
    for name, by_count in table.items():
        for count, effects in by_count.items():
            figures[f"claim supported at effect, {name}, {count} seeds"] = {
                effect: rates["claim supported"] for effect, rates in effects.items()
            }
            figures[f"claim contradicted at effect, {name}, {count} seeds"] = {
                effect: rates["claim contradicted"] for effect, rates in effects.items() if float(effect) <= SIZE
            }
    figures["all directions at the threshold"] = several_directions(5 * options.size, options.seed)
    figures["a condition that shares the contrast's noise, effect 0, 5 seeds"] = with_a_condition(
        5 * options.size, options.seed
    )
    for name, rates in other_intervals(options.size // 2, options.seed).items():
        figures[f"false verdicts of other intervals at 5 %, the worse side: {name}"] = rates
    print(worst)
    if options.record:
        record(
            options.record / "claims-judge.json",
            title="The judge of claims on planted effects",
            command=f"python benchmarks/claims_judge.py --size {options.size} --record docs/results",
            precision="float64",
            seed=options.seed,
            figures=figures,
            target="False support at most 5 %, false contradiction at most 5 %, whatever the noise; the power at each effect.",
            note="Effects are in units of the noise, whose middle half is as wide as that of a normal distribution with "
            "standard deviation 1. Where the noise has ties at the threshold a true effect of 0 is still 0. "
            + options.note,
        )


if __name__ == "__main__":
    main()
