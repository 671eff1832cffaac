"""Checks for models of your own: the contracts that the package's models and mechanisms pass."""

from regard.testing.models import CheckFailed, check_model, model_checks

__all__ = ["CheckFailed", "check_model", "model_checks"]
