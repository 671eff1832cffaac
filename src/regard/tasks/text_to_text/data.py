"""What a text-to-text model learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

from regard.data.mixing import Mixing
from regard.errors import InputError
from regard.models.config import check

Place = str | tuple[str, ...]

OF_ALL = ("parts", "limit", "temperature", "maximum_source", "maximum_target")
"""What is said once, of all parts together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextToTextData:
    """The `data` section of a recipe: one set of pairs of texts, or several with a name each.

    Arguments:
        train: a TSV, CSV or JSONL file, two parallel files, or `hub:owner/name`; gzip is recognised.
        validation: likewise; held out from the training data where null.
        validation_size: how many pairs to hold out, at most a tenth of all.
        prefix: what stands in front of every source, such as "summarize: "; with the space that ends it.
        source, target: column index, column name or JSON key of the two texts.
        format: `tsv`, `csv`, `jsonl`, or `auto`; or `questions`: SQuAD's JSON, or JSONL of questions with contexts, each read as
            "question: ... context: ..." and answered by the text of its first answer.
        on_error: what to do about a malformed row: `skip` counts and reports it, `stop` ends with an error.
        parts: a mixture: each part's name with a section like this one.
        limit: the most examples that a part of a mixture counts for; null = all it has.
        temperature: 1 mixes by size, and the larger the more alike the parts become.
        maximum_source: tokens that are read of a source, its end token included; of a longer one the beginning. Null = all.
        maximum_target: pairs with a longer target are left out of training and counted; null keeps all.

    Raises:
        InputError: for parts that cannot be told apart, or a number out of range.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_size: int = 1_000
    prefix: str = ""
    source: int | str | None = None
    target: int | str | None = None
    format: Literal["auto", "tsv", "csv", "jsonl", "questions"] = "auto"
    on_error: Literal["skip", "stop"] = "skip"
    parts: dict[str, TextToTextData] | None = None
    limit: int | None = None
    temperature: float = 1.0
    maximum_source: int | None = 512
    maximum_target: int | None = 512

    def __post_init__(self) -> None:
        if self.parts is not None:
            self._check_parts(self.parts)
        check(self.validation_size > 0, "data.validation_size", self.validation_size, "above 0", "raise it")
        for name in ("maximum_source", "maximum_target"):
            most = getattr(self, name)
            check(most is None or most >= 2, f"data.{name}", most, "at least 2", "512 is usual; null for no limit")
        self.mixing(0)
        if self.format == "questions" and (self.source is not None or self.target is not None):
            raise InputError("data.format is questions, which have no columns; leave data.source and data.target out")

    def _check_parts(self, parts: dict[str, TextToTextData]) -> None:
        check(len(parts) > 1, "data.parts", list(parts), "two or more", "for one, give data.train alone")
        for name, part in parts.items():
            check(
                re.fullmatch(r"[^\W_][\w-]*", name) is not None,
                "the name of a part in data.parts",
                name,
                "letters, digits, - and _",
                "it names the part's metrics, such as loss.summaries",
            )
            for own in dataclasses.fields(self):
                if own.name in OF_ALL and getattr(part, own.name) != own.default:
                    raise InputError(
                        f"data.parts.{name}.{own.name} is given, and it is said of all parts together; give data.{own.name}"
                    )
        for own in dataclasses.fields(self):
            if own.name not in OF_ALL and getattr(self, own.name) != own.default:
                raise InputError(
                    f"data.{own.name} is given beside data.parts; say it of each part, such as "
                    f"data.parts.{next(iter(parts))}.{own.name}"
                )

    @property
    def named(self) -> dict[str, TextToTextData]:
        """The parts by name; one alone has none."""
        return {"": self} if self.parts is None else self.parts

    def mixing(self, seed: int) -> Mixing:
        """In which proportion the parts are learnt from.

        Raises:
            InputError: for a limit or temperature that is none.
        """
        return Mixing(limit=self.limit, temperature=self.temperature, seed=seed)
