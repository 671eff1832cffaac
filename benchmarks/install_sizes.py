"""How much a package brings along: its own distribution and all that it requires, those of PyTorch left out.

    path/to/environment/bin/python benchmarks/install_sizes.py sentence-transformers keras 'regard[all]'

Of the environment that it runs in, which needs `packaging`. Sizes are those of the files that each distribution lists, compiled
modules of Python among them. It imports nothing of this repository, so that it runs in an environment without it.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys

from packaging.requirements import Requirement

Distributions = dict[str, importlib.metadata.Distribution]


def closure(name: str, extras: tuple[str, ...] = ()) -> Distributions:
    """A distribution and those that it requires here, by their normalised names."""
    found: Distributions = {}
    asked = [(name, extras)]
    done: set[tuple[str, tuple[str, ...]]] = set()
    while asked:
        one = asked.pop()
        if one in done:
            continue
        done.add(one)
        try:
            distribution = importlib.metadata.distribution(one[0])
        except importlib.metadata.PackageNotFoundError:
            continue
        found[re.sub(r"[-_.]+", "-", one[0]).lower()] = distribution
        for line in distribution.requires or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in (*one[1], "")):
                asked.append((needed.name, tuple(sorted(needed.extras))))
    return found


def size(distribution: importlib.metadata.Distribution) -> int:
    """Bytes of its files that are there."""
    places = (file.locate() for file in distribution.files or [])
    return sum(place.stat().st_size for place in places if place.is_file())  # type: ignore[union-attr]


def main() -> None:
    torch = closure("torch")
    print(f"torch: {len(torch)} distributions, {sum(map(size, torch.values())) / 2**20:,.0f} MiB")
    for asked in sys.argv[1:]:
        name, _, extras = asked.rstrip("]").partition("[")
        rest = {key: each for key, each in closure(name, tuple(extras.split(","))).items() if key not in torch}
        version = importlib.metadata.version(name)
        print(
            f"{asked} {version}: {len(rest)} distributions, {sum(map(size, rest.values())) / 2**20:,.0f} MiB without torch"
        )


if __name__ == "__main__":
    main()
