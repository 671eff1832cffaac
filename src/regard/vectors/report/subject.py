"""What a report is about: one embedding, and what was found of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.vectors.bias import Audit
from regard.vectors.evaluation.battery import Report
from regard.vectors.store import WordVectors


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """An embedding with its figures.

    Arguments:
        vectors: themselves.
        report: how they did in the tests.
        audit: of bias; None where none could be made.
    """

    vectors: WordVectors
    report: Report
    audit: Audit | None = None

    @property
    def name(self) -> str:
        """Of the vectors."""
        return self.vectors.name


def names(subjects: Sequence[Subject]) -> tuple[str, ...]:
    """One for each column of a table."""
    return tuple(subject.name for subject in subjects)
