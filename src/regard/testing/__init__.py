"""Checks for your own models and mechanisms: the contracts that the package's own satisfy."""

from regard.testing.inputs import CheckFailed
from regard.testing.mechanism_inputs import MechanismTraits
from regard.testing.mechanisms import check_mechanism, mechanism_checks
from regard.testing.models import check_model, model_checks

__all__ = [
    "CheckFailed",
    "MechanismTraits",
    "check_mechanism",
    "check_model",
    "mechanism_checks",
    "model_checks",
]
