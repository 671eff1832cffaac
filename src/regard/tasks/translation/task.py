"""What translation is to a model: strings to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.generation.penalties import check_coverage
from regard.structure import coerced, from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.pairs import PairTask
from regard.tasks.translation import open_folder
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True)
class TranslationTask(PairTask):
    """What turns strings into a translation model's tensors, and its outputs into a loss and strings.

    Arguments:
        source_tokenizer, target_tokenizer: the same object where one vocabulary is shared.
        generation: how to decode unless told otherwise.
        languages: those that one model translates into; a source then begins with the tag of the one wanted (Johnson et al.
            2017). Empty for a model of one language, which needs no name.
    """

    name: ClassVar[str] = "translation"

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    languages: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_tokenizer == self.target_tokenizer

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        return self.source_tokenizer, self.target_tokenizer

    def encode_sources(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """The token ids of sources, without the end token; the tag of the language wanted in front where there are several.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        self.check_language(to)
        before = [] if to is None else [self.source_tokenizer.id_of(tag(to))]
        return [[*before, *ids] for ids in self.source_tokenizer.encode_batch(list(texts))]

    def check_language(self, to: str | None) -> None:
        """Refuse a language that the model cannot be asked for, naming those it can.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        names = ", ".join(self.languages)
        if to is None and self.languages:
            raise InputError(f"the model translates into several languages; name one with to (--to): {names}")
        if to is not None and not self.languages:
            raise InputError(f"to is {to!r}, but the model translates into one language only; leave it out")
        if to is not None and to not in self.languages:
            raise InputError(f"the model does not translate into {to!r}; it translates into {names}")

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """The languages' tags in the target vocabulary, where it is the source's too: never to be written."""
        known = set(self.target_tokenizer.extra_tokens) if self.languages else set()
        return tuple(self.target_tokenizer.id_of(tag(name)) for name in self.languages if tag(name) in known)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Pairs and vocabularies in a few words."""
        return (
            f"{len(train):,} pairs to learn from, {len(validation):,} to validate on; vocabularies of "
            f"{self.source_tokenizer.size:,} and {self.target_tokenizer.size:,} tokens"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse data that the model has too few positions for, and a coverage penalty where there is no coverage.

        Raises:
            InputError: naming what is too long, and what to do.
        """
        PairTask.check(self, model, train, validation)
        if self.generation.coverage_penalty > 0:
            check_coverage(model)

    def shorter(self, split: str, limit: int) -> str:
        """How pairs become shorter."""
        return (
            f"leave long pairs out: data.maximum_tokens={limit - 1}"
            if split == "training"
            else "shorten data.validation"
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """The languages that one model translates into."""
        return self.languages

    def groups(self, data: TokenStore) -> dict[str, list[int]]:
        """The rows into each language, told by the tag in front; empty for a model of one language."""
        if not self.languages:
            return {}
        names = {self.source_tokenizer.id_of(tag(language)): language for language in self.languages}
        rows: dict[str, list[int]] = {language: [] for language in self.languages}
        for row in range(len(data)):
            rows[names[int(data.sequence("source", row)[0])]].append(row)
        return rows

    def texts(self, data: TokenStore, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Pairs of a token store as texts again, without tags."""
        return [
            (
                self.source_tokenizer.decode(data.sequence("source", row).tolist()),
                self.target_tokenizer.decode(data.sequence("target", row).tolist()),
            )
            for row in rows
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return what else regard.json has to hold."""
        if self.shared:
            self.source_tokenizer.save(folder)
        else:
            self.source_tokenizer.save(folder / "source")
            self.target_tokenizer.save(folder / "target")
        languages = {"languages": list(self.languages)} if self.languages else {}
        return {"name": self.name, "shared": self.shared, **languages, "generation": asdict(self.generation)}

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a translation model into an existing folder.

        A Transformer that Hugging Face's config can tell is written as Marian or Pegasus, which other programs open.
        """
        source, target = self.source_tokenizer, self.target_tokenizer
        obstacle = open_folder.obstacle(source, target, config.target_vocabulary)
        asked = f', to="{self.languages[0]}"' if self.languages else ""
        others = f"  # or {', '.join(self.languages[1:])}" if self.languages else ""
        use = [f'print(model.translate("..."{asked}).text){others}']
        layout = write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, obstacle=obstacle
        )
        if "why" not in layout:
            open_folder.write(
                folder, target, self.generation, maximum=config.maximum_positions, never=sorted(self.tag_ids)
            )

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TranslationTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        source = Tokenizer.load(folder if values.get("shared") else folder / "source")
        target = source if values.get("shared") else Tokenizer.load(folder / "target")
        where = f"{folder / 'regard.json'}: task"
        generation = from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation")
        languages = coerced(values.get("languages", []), tuple[str, ...], f"{where}.languages")
        for language in languages:
            if tag(language) not in source.extra_tokens:
                raise InputError(
                    f"{where}.languages names {language!r}, and the tokenizer has no token {tag(language)}; "
                    "tokenizer and regard.json must come from the same model"
                )
        return cls(source, target, generation, languages)


def tag(language: str) -> str:
    """The token that asks for a language, first of a source.

    >>> tag("de")
    '<2de>'
    """
    return f"<2{language}>"
