"""What a captioner learns from, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.data.pictures import Fit
from regard.data.scenes import Kind, Objects, Scenes
from regard.errors import InputError
from regard.models.config import check
from regard.tasks.captioning.objective import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenesData:
    """Builtin pictures with captions, which say where everything is that is named.

    Arguments:
        kind: `grid`, things in cells of a grid; `line`, a line of handwriting; `moving`, a thing that moves from frame to frame.
        objects: handwritten `digits`, or coloured `shapes`.
        mnist: a folder with MNIST's files to take the digits from; null for those that come with scikit-learn.
        rows, columns: of the grid; a line has one row.
        cell: height and width of a cell in pixels.
        fewest, most: things in a grid or line.
        frames: of `moving`.
        row_words: whether a grid's captions say `top`, `middle` and `bottom`.
        size, validation_size: how many scenes to draw for training and validation; no arrangement is in both.
    """

    kind: Kind = "grid"
    objects: Objects = "digits"
    mnist: str | None = None
    rows: int = 3
    columns: int = 3
    cell: int = 16
    fewest: int = 3
    most: int = 3
    frames: int = 4
    row_words: bool = False
    size: int = 20_000
    validation_size: int = 1_000

    def __post_init__(self) -> None:
        check(
            min(self.size, self.validation_size) > 0,
            "data.scenes.size and validation_size",
            (self.size, self.validation_size),
            "above 0",
            "raise them",
        )

    def scenes(self, split: str, size: int, seed: int) -> Scenes:
        """The scenes of one split.

        Raises:
            InputError: for numbers that make no scene.
        """
        return Scenes(
            split,
            kind=self.kind,
            objects=self.objects,
            mnist=self.mnist,
            rows=self.rows,
            columns=self.columns,
            cell=self.cell,
            fewest=self.fewest,
            most=self.most,
            frames=self.frames,
            row_words=self.row_words,
            size=size,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of captions: in each line a picture's name, a tab and a caption; see `regard.data.captions`.
        pictures: the folder or zip archive that these pictures are in. Captions of pictures that are not there are left out and
            counted.
        validation: another file of captions; pictures are held out of the training data where null.
        validation_pictures: where its pictures are; with the others where null.
        validation_size: how many pictures to hold out, at most a tenth of all.
        scenes: builtin pictures instead of files.
        height, width: every picture becomes so large, in pixels. Scenes have their own size.
        fit: how: `crop` cuts off what stands over, `pad` puts black beside, `stretch` changes proportions.
        colour: red, green and blue; one channel of grey where false.
        maximum_tokens: longer captions are left out of training and counted; null keeps all.
        on_error: what to do about a malformed row: `skip` counts and reports it, `stop` ends with an error.
        objective: what is learnt beside the words.

    Raises:
        InputError: for several kinds of data at once, or sizes below one.
    """

    train: str | None = None
    pictures: str | None = None
    validation: str | None = None
    validation_pictures: str | None = None
    validation_size: int = 1_000
    scenes: ScenesData | None = None
    height: int = 128
    width: int = 128
    fit: Fit = "crop"
    colour: bool = True
    maximum_tokens: int | None = None
    on_error: Literal["skip", "stop"] = "skip"
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        for name in ("train", "pictures", "validation", "validation_pictures"):
            value = getattr(self, name)
            check(
                self.scenes is None or value is None,
                f"data.{name}",
                value,
                "left out beside data.scenes",
                "choose builtin scenes or your own files",
            )
        if (self.train is None) != (self.pictures is None):
            raise InputError(
                "data.train and data.pictures belong together: a file of captions and where its pictures are"
            )
        for name in ("validation_size", "height", "width"):
            check(getattr(self, name) > 0, f"data.{name}", getattr(self, name), "above 0", "raise it")
