"""The experiment behind the claim that one direction explains the pairs: it finds what is there, and nothing where nothing is."""

from __future__ import annotations

import pytest

from regard.claims.claim import claim
from regard.errors import InputError
from regard_claims.one_direction.planted_direction import PlantedDirection

SMALL = {"words": 200, "width": 40, "pairs": 6, "compared": 400}


def test_a_planted_direction_is_found_and_taken_out():
    settings = PlantedDirection(**SMALL, noise=0.3)  # type: ignore[arg-type]
    found = settings.run(1)
    assert tuple(found) == settings.measures
    assert found["cosine with what was planted"] > 0.95
    assert found["first over second component"] > 10
    assert found["largest bias after"] < 1e-6 < found["largest bias before"]
    assert found["largest difference of distances"] < 1e-6
    assert settings.run(1) == found != settings.run(2)


def test_where_nothing_is_planted_no_component_stands_out():
    found = PlantedDirection(**SMALL, planted=0.0, amount=0.0).run(1)  # type: ignore[arg-type]
    assert found["cosine with what was planted"] < 0.6
    assert found["first over second component"] < 3
    assert found["change of Spearman"] < 0.02


def test_the_claim_of_the_catalogue():
    found = claim("4.7")
    assert (found.name, found.needs_data) == ("one-direction", False)
    assert [found.resolved.experiment_of(arm).noise for arm in found.resolved.arms][:1] == [1.0]


@pytest.mark.parametrize("changes", [{"pairs": 1}, {"words": 20}, {"width": 20}])
def test_sizes_that_are_too_small_are_refused(changes):
    with pytest.raises(InputError, match=rf"experiment\.{next(iter(changes))}"):
        PlantedDirection(**changes)
