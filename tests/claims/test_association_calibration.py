"""The experiment behind the claim that the association test is calibrated."""

from __future__ import annotations

import numpy as np
import pytest

from regard.claims.claim import claim
from regard.errors import InputError
from regard_claims.association_test.association_calibration import AssociationCalibration, _uniform

SMALL = {"runs": 60, "planted_runs": 4, "samples": 300}


def test_it_finds_what_is_planted_and_nothing_else():
    settings = AssociationCalibration(**SMALL)
    found = settings.run(1)
    assert tuple(found) == settings.measures
    assert found["p of the Kolmogorov-Smirnov test"] > 0.001
    assert found["mean |d| without association"] == pytest.approx(0.4, abs=0.12)
    effects = [value for name, value in found.items() if name.startswith("d at strength")]
    assert effects == sorted(effects)
    assert abs(effects[0]) < 0.8 < 1.5 < effects[-1] <= 2
    assert 0.5 < found["sampled minus exact p in standard errors"] < 1.5
    assert settings.run(1) == found != settings.run(2)


def test_the_sample_deviation_makes_effects_smaller_by_its_factor():
    one, other = (AssociationCalibration(**SMALL, ddof=ddof).run(1) for ddof in (0, 1))
    assert one["d at strength 1"] / other["d at strength 1"] == pytest.approx(np.sqrt(16 / 15))
    assert one["p of the Kolmogorov-Smirnov test"] == other["p of the Kolmogorov-Smirnov test"]


def test_numbers_that_are_not_even_are_told():
    assert _uniform(np.linspace(0.001, 0.999, 200)) > 0.9
    assert _uniform(np.linspace(0.001, 0.5, 200)) < 1e-6


def test_the_claim_of_the_catalogue():
    found = claim("4.8")
    assert (found.name, found.needs_data) == ("association-test", False)
    assert [found.resolved.experiment_of(arm).ddof for arm in found.resolved.arms] == [0, 1]


@pytest.mark.parametrize("changes", [{"ddof": 2}, {"runs": 1}, {"size": 1}])
def test_settings_that_mean_nothing_are_refused(changes):
    with pytest.raises(InputError, match=rf"experiment\.{next(iter(changes))}"):
        AssociationCalibration(**changes)
