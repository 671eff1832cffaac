"""Music for a language model to learn from, as data: two parts of a recipe's `data` section."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.motifs import Motifs
from regard.data.music import Grid, Writing
from regard.models.config import check
from regard.text.events import Events


@dataclass(frozen=True, kw_only=True, slots=True)
class MusicData:
    """The files are music: MIDI files, folders of them, or a file of chorales (.json) with its splits.

    Arguments:
        events: `performance`, notes struck and let go with the time between, or `grid`, the pitch of each voice at each step. The
            tokenizer is of the same kind.
        voices: of `grid`, how many.
        steps_per_quarter: of `grid`: 4 for sixteenths. A file of chorales is on its own grid already, and this says which.
        transpose: a piece is learnt from in its own key, and in those up to so many semitones lower and higher.

    Raises:
        InputError: for numbers out of range.
    """

    events: Events = "performance"
    voices: int = 4
    steps_per_quarter: int = 4
    transpose: int = 0

    def __post_init__(self) -> None:
        check(1 <= self.voices <= 64, "data.music.voices", self.voices, "1 to 64", "chorales have 4")
        steps = self.steps_per_quarter
        check(1 <= steps <= 96, "data.music.steps_per_quarter", steps, "1 to 96", "4 for sixteenths")
        check(0 <= self.transpose <= 24, "data.music.transpose", self.transpose, "0 to 24", "3 is usual")

    @property
    def writing(self) -> Writing:
        """How pieces become words."""
        grid = Grid(voices=self.voices, steps_per_quarter=self.steps_per_quarter)
        return Writing(events=self.events, grid=grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class MotifsData:
    """Builtin data: melodies of a motif and its answer, again and again, for the tokenizer kind `grid`.

    Arguments:
        shortest, longest: how many notes a motif has.
        farthest: by how many semitones its answer is moved, at most.
        notes: of a melody. With its end it has one token more; a stretch of `data.length` tokens may be a part of it.
        size, validation_size: how many melodies to draw; no motif is in both.

    Raises:
        InputError: for numbers out of range.
    """

    shortest: int = 3
    longest: int = 9
    farthest: int = 5
    notes: int = 255
    size: int = 4_000
    validation_size: int = 100

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.motifs.{name}", value, "above 0", "raise it")
        self.melodies("train", 0, 0)

    def melodies(self, split: str, size: int, seed: int) -> Motifs:
        """The melodies of one split."""
        return Motifs(
            split,
            shortest=self.shortest,
            longest=self.longest,
            farthest=self.farthest,
            notes=self.notes,
            size=size,
            seed=seed,
        )

    @property
    def writing(self) -> Writing:
        """How its words are read: an eighth note each."""
        return Writing(events="grid", grid=Grid(voices=1, steps_per_quarter=2))
