"""How far judges agree beyond what chance would give: Cohen's kappa of two, Fleiss' of more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from regard.errors import InputError
from regard.metrics.classification import check_alike


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Cohen's kappa of two judges: (p - e) / (1 - e), p the share of items on which they agree (Cohen 1960).

    e is what two who choose by chance, each as often as they do, would agree on. It is nan where both choose one thing always.

    Raises:
        InputError: nothing to compare, or different numbers of items.

    >>> cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
    0.5
    """
    check_alike(first, second)
    size = len(first)
    agreed = sum(one == other for one, other in zip(first, second, strict=True)) / size
    one, other = Counter(first), Counter(second)
    chance = sum(count * other[choice] for choice, count in one.items()) / size**2
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float:
    """Fleiss' kappa of several judges, all of whom judged every item (Fleiss 1971).

    (P - e) / (1 - e) with P the mean share of pairs of judges that agree on an item, and e the sum of the squared shares of the
    choices over all items. It is nan where only one choice occurs.

    Arguments:
        items: of each the judges' choices, as many for all.

    Raises:
        InputError: no items, fewer than two judges, or not as many everywhere.

    >>> round(fleiss_kappa([["a", "a", "a"], ["b", "b", "a"], ["b", "b", "b"]]), 3)
    0.55
    """
    judges = {len(item) for item in items}
    if len(judges) != 1 or min(judges) < 2:
        raise InputError("agreement is of items that the same judges judged, two at least; give others")
    count = judges.pop()
    pairs = count * (count - 1)
    agreed = sum(sum(n * (n - 1) for n in Counter(item).values()) / pairs for item in items) / len(items)
    shares = Counter(choice for item in items for choice in item)
    chance = sum((n / (count * len(items))) ** 2 for n in shares.values())
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")
