"""scikit-learn's linear models behind a scaler: what every vector is judged with."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""Penalties of which ridge regression takes the best on the training data, each example left out once."""


def logistic(c: float) -> Any:
    """Logistic regression on features of mean 0 and variance 1, so that no method's scale counts.

    Arguments:
        c: one over the weight of the penalty, as scikit-learn's C.

    Raises:
        InputError: where scikit-learn is missing, or C is not above 0.
    """
    if not c > 0:
        raise InputError(f"c is {c}; give a number above 0")
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise _missing() from error
    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=2000))


def ridge() -> Any:
    """Ridge regression on features of mean 0 and variance 1, with the best of `RIDGES`.

    Raises:
        InputError: where scikit-learn is missing.
    """
    try:
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise _missing() from error
    return make_pipeline(StandardScaler(), RidgeCV(alphas=RIDGES))


def _missing() -> InputError:
    return InputError("scikit-learn is not installed; pip install 'regard[eval]'")
