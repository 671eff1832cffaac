"""Layer-wise probing: how well a linear classifier reads a property off each layer's hidden states."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.hooks import addresses_of
from regard.inspection.hooks.interception import chosen_modules
from regard.inspection.record import look
from regard.rendering import Fitted

if TYPE_CHECKING:
    from rich.table import Table


B = TypeVar("B")


def hidden_states(
    module: nn.Module,
    addresses: Sequence[str],
    batches: Iterable[B],
    read: Callable[[B], Tensor | None],
) -> dict[str, np.ndarray]:
    """What chosen parts of a module give, token by token, over many batches.

    Arguments:
        module: any torch module, in evaluation mode.
        addresses: parts by name or pattern, such as `encoder.layers.*`, where `*` stands for what has no dot in it. Each gives
            (B, L, D), or a tuple that begins with it, once for each batch.
        batches: what is read, in any form.
        read: runs the module on one batch, and returns which places count, (B, L) bool, True = keep; None keeps all.

    Returns:
        By address, (N, D) float32: the kept places of the first row from left to right, then of the next, batch after batch.
        What is kept is the same for all parts, so row n is the same token in each.

    Raises:
        InputError: for an address that is not there, in training mode, and for a part that gives something else.

    >>> layers = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).eval()
    >>> found = hidden_states(layers, ["1", "2"], [torch.ones(2, 4, 2)], lambda x: layers(x) is None or None)
    >>> {address: states.shape for address, states in found.items()}
    {'1': (8, 3), '2': (8, 1)}
    """
    if any(part.training for part in module.modules()):
        raise InputError(
            "the module is in training mode, where dropout changes its states each time; call eval() first"
        )
    if not addresses:
        raise InputError("addresses is empty; name the parts whose states are wanted")
    found: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        with torch.no_grad(), look(module, [], hidden=addresses) as seen:
            kept = read(batch)
        outputs: dict[str, list[Tensor]] = {}
        for run in seen.runs:
            for address, given in run.hidden.items():
                outputs.setdefault(address, []).extend(one.read(f"{address}: the output") for one in given)
        for address in chosen_modules(addresses_of(module), addresses):
            states = outputs.get(address, [])
            if len(states) != 1:
                raise InputError(
                    f"{address} ran {len(states)} times for one batch; name parts that run once, and read a batch at once"
                )
            found.setdefault(address, []).append(_kept(states[0], kept, address))
    if not found:
        raise InputError("there are no batches to read; give at least one")
    return {address: np.concatenate(each) for address, each in found.items()}


def _kept(states: Tensor, kept: Tensor | None, address: str) -> np.ndarray:
    if states.dim() != 3 or not states.is_floating_point():
        raise InputError(
            f"{address} gives {tuple(states.shape)}, no hidden states (batch, places, width); name another part"
        )
    if kept is None:
        return states.flatten(0, 1).float().cpu().numpy()
    if kept.dtype != torch.bool or kept.shape != states.shape[:2]:
        raise InputError(
            f"{address} gives states {tuple(states.shape)}, and read returned {kept.dtype} {tuple(kept.shape)}; return bool "
            f"{tuple(states.shape[:2])}, True where a place counts"
        )
    return states[kept.to(states.device)].float().cpu().numpy()


Seeds = Mapping[int, float]
"""A number for each seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerProbe:
    """What probes read off one layer.

    Arguments:
        address: the layer.
        accuracy: by seed, on test examples.
        control: by seed, of the same probe trained on the control task; empty without word types.
        converged: whether every fit reached its optimum within the iterations allowed.
    """

    address: str
    accuracy: Seeds
    control: Seeds = field(default_factory=dict)
    converged: bool = True

    @property
    def selectivity(self) -> Seeds:
        """By seed, accuracy minus control accuracy (Hewitt and Liang 2019, section 2)."""
        return {seed: self.accuracy[seed] - control for seed, control in self.control.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """A finished comparison of layers.

    Arguments:
        layers: in the order given.
        majority: by seed, the test accuracy of always giving the training examples' most frequent label.
        type_majority: by seed, of giving each word type its most frequent label in training (the overall one to unseen types);
            empty without word types.
        seen_types: by seed, the share of test examples whose word type was seen in training: about what can be had of the
            control task.
        labels: how often each label occurs, most frequent first.
        examples: (training, test), in the first split.
        test_share: of groups held out.
        strength: C, the inverse of the regularisation.
    """

    layers: tuple[LayerProbe, ...]
    majority: Seeds
    type_majority: Seeds = field(default_factory=dict)
    seen_types: Seeds = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[int, int] = (0, 0)
    test_share: float = 0.2
    strength: float = 1.0

    @classmethod
    def of(
        cls,
        states: Mapping[str, np.ndarray],
        labels: Sequence[Hashable],
        *,
        types: Sequence[Hashable] | None = None,
        groups: Sequence[Hashable] | None = None,
        seeds: int | Sequence[int] = 3,
        test_share: float = 0.2,
        strength: float = 1.0,
        iterations: int = 1000,
    ) -> Self:
        """Train and test a linear probe on each layer: multinomial logistic regression on standardised states.

            p(y | h) = softmax(W (h - m) / s + b),   m, s the training states' mean and standard deviation

        fitted by scikit-learn's L-BFGS with an L2 penalty |W|^2 / 2C added to the sum of the losses; of two labels only one has
        a row of W, the other's is zero. A seed draws the split and the control task; both are the same for
        every layer. The control task (Hewitt and Liang 2019, section 2) gives every word type one label, drawn from the labels of
        the examples, and keeps it wherever the word stands: it says how much a probe can learn by rote. A layer knows the
        property where selectivity, accuracy minus control accuracy, is high.

        Arguments:
            states: by layer, (N, D) numbers; see `hidden_states`.
            labels: N labels of any kind.
            types: N word types, such as the tokens, for the control task; there is none without.
            groups: N group marks, such as the number of the sentence; no group is in both training and test. Every example is
                its own where None.
            seeds: a number M for seeds 1 to M, or the seeds.
            test_share: the share of groups to test on.
            strength: C, the inverse of the L2 penalty's weight; larger fits more closely.
            iterations: at most so many for one fit; `LayerProbe.converged` says whether they were enough.

        Raises:
            InputError: for lengths that do not fit, states that are not finite, fewer than two labels or groups, and without
                scikit-learn.

        >>> drawn = np.random.default_rng(0)
        >>> known = drawn.integers(0, 2, 200)
        >>> says = known[:, None] + drawn.normal(0, 0.1, (200, 3))
        >>> probed = Probed.of({"tells": says, "noise": drawn.normal(0, 1, (200, 3))}, known.tolist(), seeds=2)
        >>> probed.layer("tells").accuracy
        {1: 1.0, 2: 1.0}
        """
        answers = np.array([str(label) for label in labels], dtype=object)
        count = len(answers)
        _check(states, count, types, groups, test_share, strength)
        chosen = _seeds(seeds)
        marks = np.arange(count) if groups is None else _codes(groups)
        words = None if types is None else _codes(types)
        names, coded, often = np.unique(answers.astype(str), return_inverse=True, return_counts=True)
        if len(names) < 2:
            raise InputError("all labels are the same; a probe needs at least two")
        majority, by_type, seen = {}, {}, {}
        accuracy: dict[str, dict[int, float]] = {address: {} for address in states}
        control: dict[str, dict[int, float]] = {address: {} for address in states}
        converged = dict.fromkeys(states, True)
        sizes = (0, 0)
        for seed in chosen:
            generator = np.random.default_rng(seed)
            test = _held_out(marks, test_share, generator)
            train = ~test
            if len(np.unique(coded[train])) < 2:
                raise InputError(f"seed {seed}: the training examples all have one label; give more examples or groups")
            sizes = sizes if any(sizes) else (int(train.sum()), int(test.sum()))
            majority[seed] = float((coded[test] == np.bincount(coded[train]).argmax()).mean())
            random = None
            if words is not None:
                random = _control(words, coded, train, generator)
                by_type[seed], seen[seed] = _by_type(words, coded, train, test)
            for address, each in states.items():
                found, good = _fitted(each, coded, train, test, strength, iterations)
                accuracy[address][seed], converged[address] = found, converged[address] and good
                if random is not None:
                    found, good = _fitted(each, random, train, test, strength, iterations)
                    control[address][seed], converged[address] = found, converged[address] and good
        return cls(
            layers=tuple(
                LayerProbe(
                    address=address, accuracy=accuracy[address], control=control[address], converged=converged[address]
                )
                for address in states
            ),
            majority=majority,
            type_majority=by_type,
            seen_types=seen,
            labels={str(names[i]): int(often[i]) for i in np.argsort(-often, kind="stable")},
            examples=sizes,
            test_share=test_share,
            strength=strength,
        )

    def layer(self, address: str) -> LayerProbe:
        """The probes of one layer.

        Raises:
            InputError: for a layer that is not there.
        """
        for each in self.layers:
            if each.address == address:
                return each
        raise InputError(f"no layer {address!r} was probed; {nearest(address, [each.address for each in self.layers])}")

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values: for each layer every seed's value with median and range."""
        return {
            "format_version": 1,
            "examples": {"training": self.examples[0], "test": self.examples[1]},
            "test_share": self.test_share,
            "strength": self.strength,
            "labels": dict(self.labels),
            "majority": spread(self.majority),
            "type_majority": spread(self.type_majority),
            "seen_types": spread(self.seen_types),
            "layers": [
                {
                    "address": each.address,
                    "accuracy": spread(each.accuracy),
                    "control": spread(each.control),
                    "selectivity": spread(each.selectivity),
                    "converged": each.converged,
                }
                for each in self.layers
            ],
        }

    def table(self) -> Table:
        """Layers by accuracy, control and selectivity: the median over seeds in per cent, and the range behind it."""
        from rich.table import Table

        controlled = bool(self.seen_types)
        caption = f"{self.examples[0]:,} training and {self.examples[1]:,} test examples; {len(self.majority)} seeds"
        if controlled:
            caption += f"; {spoken(self.seen_types)} % of test examples of a type seen in training"
        if not all(each.converged for each in self.layers):
            caption += "; * = not every fit converged: raise iterations"
        table = Table(header_style="bold", caption=caption, caption_justify="left")
        table.add_column("layer", overflow="fold")
        for title in ("accuracy", *(("control", "selectivity") if controlled else ())):
            table.add_column(title, justify="right")
        blanks = ("", "") if controlled else ()
        table.add_row("always the most frequent label", spoken(self.majority), *blanks)
        if controlled:
            table.add_row("each type's most frequent label", spoken(self.type_majority), *blanks, end_section=True)
        for each in self.layers:
            controls = (spoken(each.control), spoken(each.selectivity)) if controlled else ()
            table.add_row(each.address + ("" if each.converged else " *"), spoken(each.accuracy), *controls)
        return table

    def __rich__(self) -> Fitted:
        """The table, for `rich.print`."""
        return Fitted(self.table())


def spoken(values: Seeds) -> str:
    """The median in per cent and, where seeds differ, the range.

    >>> spoken({1: 0.5, 2: 0.625, 3: 0.75})
    '62.5 (50.0-75.0)'
    """
    if not values:
        return "-"
    middle, low, high = (
        f"{100 * value:.1f}"
        for value in (statistics.median(values.values()), min(values.values()), max(values.values()))
    )
    return middle if low == high else f"{middle} ({low}-{high})"


def spread(values: Seeds) -> dict[str, Any] | None:
    """Median, range and each seed's value; None where there are no values."""
    if not values:
        return None
    return {
        "median": statistics.median(values.values()),
        "smallest": min(values.values()),
        "largest": max(values.values()),
        "seeds": {str(seed): value for seed, value in values.items()},
    }


def _fitted(
    states: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray, strength: float, iterations: int
) -> tuple[float, bool]:
    """Test accuracy of one probe, and whether its fit converged."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        raise InputError("a probe needs scikit-learn: pip install 'regard[eval]'") from None

    wide = np.asarray(states, dtype=np.float64)
    if len(np.unique(labels[train])) < 2:  # a control task that came out with one label only
        return float(np.mean(labels[test] == labels[train][0])), True
    scaler = StandardScaler().fit(wide[train])
    probe = LogisticRegression(C=strength, max_iter=iterations)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        probe.fit(scaler.transform(wide[train]), labels[train])
    converged = not any(issubclass(each.category, ConvergenceWarning) for each in said)
    return float(np.mean(probe.predict(scaler.transform(wide[test])) == labels[test])), converged


def _held_out(marks: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """(N,) bool, True = test: whole groups, about `share` of them, at least one on either side."""
    groups = generator.permutation(np.unique(marks))
    count = min(max(round(share * len(groups)), 1), len(groups) - 1)
    return np.isin(marks, groups[:count])


def _control(words: np.ndarray, labels: np.ndarray, train: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A label for each word type, drawn as often as labels occur in training."""
    return generator.choice(labels[train], size=int(words.max()) + 1)[words]


def _by_type(words: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Test accuracy of each type's most frequent label in training, and the share of test examples of a type seen there."""
    counts = np.zeros((int(words.max()) + 1, int(labels.max()) + 1))
    np.add.at(counts, (words[train], labels[train]), 1)
    seen = counts.sum(axis=1) > 0
    best = np.where(seen, counts.argmax(axis=1), np.bincount(labels[train]).argmax())
    return float((best[words[test]] == labels[test]).mean()), float(seen[words[test]].mean())


def _codes(marks: Sequence[Hashable]) -> np.ndarray:
    """Equal things as equal numbers from 0, in the order they first occur."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(mark, len(numbers)) for mark in marks])


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int):
        if seeds < 1:
            raise InputError(f"seeds is {seeds}; give how many, at least 1")
        return tuple(range(1, seeds + 1))
    if not seeds:
        raise InputError("seeds is empty; give at least one")
    return tuple(seeds)


def _check(
    states: Mapping[str, np.ndarray],
    count: int,
    types: Sequence[Hashable] | None,
    groups: Sequence[Hashable] | None,
    test_share: float,
    strength: float,
) -> None:
    if not states:
        raise InputError("states is empty; give the hidden states of at least one layer")
    for address, each in states.items():
        if np.ndim(each) != 2 or len(each) != count:
            raise InputError(f"{address}: states are {np.shape(each)} for {count} labels; give ({count}, width)")
        if not np.isfinite(each).all():
            raise InputError(f"{address}: some states are not finite, and nothing can be read off them")
    for name, marks in (("types", types), ("groups", groups)):
        if marks is not None and len(marks) != count:
            raise InputError(f"{name}: {len(marks)} given for {count} labels; give one for each")
    if (count if groups is None else len(set(groups))) < 2:
        raise InputError("there is one group only, which cannot be split into training and test; give more")
    if not 0 < test_share < 1:
        raise InputError(f"test_share is {test_share}; give a share between 0 and 1, such as 0.2")
    if strength <= 0:
        raise InputError(f"strength is {strength}; give a number above 0, 1 is usual")
