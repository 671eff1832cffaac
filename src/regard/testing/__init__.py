"""Checks for models and mechanisms of your own: the contracts that the package's own pass."""

from regard.testing.mechanisms import MechanismTraits, check_mechanism, mechanism_checks
from regard.testing.models import CheckFailed, check_model, model_checks

__all__ = [
    "CheckFailed",
    "MechanismTraits",
    "check_mechanism",
    "check_model",
    "mechanism_checks",
    "model_checks",
]
