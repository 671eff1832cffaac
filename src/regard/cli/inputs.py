"""The inputs of commands: the model on a device, and the texts, images and pieces of music that arguments name."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import on_terminal, say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.lines import Line
    from regard.data.music import Writing
    from regard.data.scenes import Scenes
    from regard.data.sequences import Motifs
    from regard.tasks import Translator
    from regard.tasks.captioning import Captioner
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.image_classification import ImageClassifierPredictor
    from regard.tasks.images import ImageInput
    from regard.tasks.language_modelling import LanguageModel

    ReaderOfImages = Captioner | ImageClassifierPredictor | FewShotClassifier


def opened(model: Path, device: str, task: str | None = None, *, dtype: str = "float32") -> Any:
    """Load a model's folder for predictions of a task; None for its own. With dtype `auto` it prints the dtype it chooses.

    Raises:
        InputError: for an unavailable device, and as `regard.load`.
    """
    from regard.machine import device_named, keep_freed_memory
    from regard.tasks.loading import load_for_inference

    place = device_named(device, "--device")
    keep_freed_memory()
    if dtype == "auto":
        from regard.training.precision import resolve

        _, chosen = resolve("auto", place)
        dtype = chosen.partition(",")[0]
        say(f"dtype: {chosen}")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        predictor = load_for_inference(model, task=task, device=place, dtype=dtype)
    for warning in warned:
        if warning.category is UserWarning:  # warnings of this package, not of libraries
            say(str(warning.message))
    slow = getattr(predictor.model, "slow", "")
    if slow:
        say(slow)
    return predictor


# Texts for a command: from its arguments, a file, or standard input.


STANDARD_INPUT = "standard input"


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and its place for messages, such as "pairs.tsv, line 3"."""

    content: str
    where: str
    row: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """All columns of its row, for a text from a table."""
    kind: str = field(default="", kw_only=True)
    """The table's format: csv, tsv or jsonl."""


TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="For a CSV, TSV or JSONL --input: the column with the text, by name or index from 0. By default the column the "
        "model was trained on, or one with a common name. All columns are kept in the output.",
        show_default=False,
    ),
]


def read_input(
    arguments: Sequence[str],
    file: Path | None,
    column: str | None = None,
    *,
    pairs: bool = False,
    known: Sequence[str] = (),
) -> Iterator[Text]:
    """As `read_texts`; from a table (CSV, JSONL, TSV with a header) it reads one column, and reports which.

    Arguments:
        arguments: the texts on the command line.
        file: the input file; None without one.
        column: its name, or index from 0; None to find it by its name.
        pairs: whether two columns may be read, for a model of text pairs.
        known: the columns that the model was trained on, which are used where the table has them.

    Raises:
        InputError: as `read_texts`; for a column without a file; where the column is ambiguous.
    """
    if file is None or arguments:
        if column is not None:
            raise InputError("--text is the column of a table; give --input FILE too, or leave it out")
        return read_texts(arguments, file)
    from regard.data.text_columns import is_table, read_table

    if not is_table(file, column, known):
        return read_texts(arguments, file)
    table = read_table(file, column, pairs=pairs, known=known)
    if table.note:
        say(table.note)
    return (Text(row.text, f"{file}, line {row.line}", row=row.row, kind=table.kind) for row in table.rows)


def columns_trained_on(model: Path) -> list[str]:
    """The names of the columns of texts, and of pairs, that a model was trained on; empty where its recipe names none."""
    from regard.checkpoints import read_card
    from regard.tasks.loading import model_folder

    data = read_card(model_folder(model)).recipe.get("data")
    names = [data.get(name) for name in ("text", "pair")] if isinstance(data, dict) else []
    return [name for name in names if isinstance(name, str)] if names and isinstance(names[0], str) else []


def read_texts(arguments: Sequence[str], file: Path | None) -> Iterator[Text]:
    """The texts one by one: the arguments, or the lines of a file (optionally gzipped) or of standard input.

    The call itself opens the file and checks its beginning.

    Raises:
        InputError: for arguments together with a file, a file that cannot be read, and a line that is not UTF-8.
    """
    if arguments and file is not None:
        raise InputError("texts are given both on the command line and in a file; give one of them")
    if arguments:
        return (Text(argument, f"text {number}") for number, argument in enumerate(arguments, start=1))
    if file is None:
        return _texts(STANDARD_INPUT, _standard_input())
    from regard.data.lines import read_lines

    return _texts(str(file), read_lines(file, pipes=True))


def refuse_too_long(translator: Translator, texts: Sequence[Text], to: str | None = None) -> None:
    """Refuse texts longer than the model's maximum.

    Arguments:
        translator: the model.
        texts: its sources.
        to: the target language, whose tag is a token too.

    Raises:
        InputError: with the place of the first such text.
    """
    limit = translator.model.maximum_source_length
    if limit is None:
        return
    encoded = translator.task.encode_sources([text.content for text in texts], to)
    for text, ids in zip(texts, encoded, strict=True):
        if len(ids) + 1 > limit:  # with its end-of-sequence token
            raise InputError(
                f"{text.where}: the source has {len(ids) + 1} tokens and the model has positions for {limit}; shorten it, or "
                f"train with a larger {translator.model.length_setting}"
            )


def _texts(name: str, lines: Iterator[Line]) -> Iterator[Text]:
    from regard.data.malformed import MalformedRow, decoded

    for line in lines:
        content = decoded(name, line)
        if isinstance(content, MalformedRow):
            raise InputError(f"{content}; give UTF-8 text with one text per line")
        yield Text(content, f"{name}, line {line.number}")


def _standard_input() -> Iterator[Line]:
    from regard.data.lines import LONGEST_LINE, Line

    if sys.stdin is None:
        raise InputError("there is no standard input; give texts, or --input FILE")
    if on_terminal(sys.stdin):
        say("reading from standard input, one text per line; end with Ctrl-D")
    for number in itertools.count(1):
        content = sys.stdin.buffer.readline(LONGEST_LINE + 2)
        if not content:
            return
        if number == 1:
            content = content.removeprefix(b"\xef\xbb\xbf")
        content = content.removesuffix(b"\n").removesuffix(b"\r")
        yield Line(number, content, len(content) > LONGEST_LINE)


# Images named on the command line: files, folders, zip archives, and builtin scenes.


BUILTIN_IMAGES = re.compile(r"(scenes|digits)(?::(\d+))?")
USUAL_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ImageText(Text):
    """An image with its name for answers: that of its file, or a builtin image's number.

    Arguments:
        image: in a form that predictors accept.
        caption: the reference caption or class of a builtin image; else empty.
    """

    image: ImageInput
    caption: str = ""


def _named(name: str, image: ImageInput, caption: str = "") -> ImageText:
    return ImageText(name, name, image, caption)


def images_named(places: Sequence[str], model: ReaderOfImages) -> list[ImageText]:
    """The images at some places, in order.

    Arguments:
        places: image files; folders and zip archives, all of whose images are used; for a captioner `scenes`, the first ten of
            its own builtin test images, or `scenes:4`, only the fifth; for a classifier likewise `digits` or `digits:4`.
        model: that is to read them.

    Raises:
        InputError: for a place without images, and builtin images that are not for this model.
    """
    return [found for place in places for found in _at(place, model)]


Support = Annotated[
    Path | None,
    typer.Option(
        metavar="PLACE",
        help="For a few-shot model: a folder or zip of labelled images, CLASS/IMAGE.",
        show_default=False,
    ),
]


def labelled_images(place: Path | None, model: FewShotClassifier) -> list[tuple[ImageInput, str]]:
    """The images in a folder or archive that a few-shot model learns from, each with the name of the folder it lies in.

    Raises:
        InputError: where there is no place, for an image in no folder, or one that cannot be read.
    """
    from regard.data.images import open_images

    if place is None:
        task = model.task
        raise InputError(
            f"this is a few-shot model and needs labelled images; give {task.ways} classes with {task.shots} "
            "image(s) of each as CLASS/IMAGE in a folder: --support FOLDER"
        )
    images = open_images(place)
    bare = [name for name in images if "/" not in name]
    if bare:
        raise InputError(f"{place}: {bare[0]} is not in a folder; put each image into a folder named after its class")
    return [(images.read(name, colour=False), PurePosixPath(name).parent.name) for name in images]


def _at(place: str, model: ReaderOfImages) -> list[ImageText]:
    match = BUILTIN_IMAGES.fullmatch(place)
    if match is not None and not Path(place).exists():
        return _builtin(match[1], None if match[2] is None else int(match[2]), model)
    path = Path(place)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return [_named(place, place)]
    from regard.data.images import open_images

    found = open_images(path)
    colour = model.task.size.channels == 3
    return [_named(name, lambda name=name: found.read(name, colour=colour)) for name in found]


def _builtin(name: str, number: int | None, model: ReaderOfImages) -> list[ImageText]:
    from regard.tasks.captioning import Captioner

    if isinstance(model, Captioner) != (name == "scenes"):
        raise InputError(
            f"{name} are for a model of another task than {model.task.name.replace('_', ' ')}; give image files"
        )
    return _scenes(model, number) if isinstance(model, Captioner) else _digits(number)


def _digits(number: int | None) -> list[ImageText]:
    from regard.data.labelled_images import read_labelled_images

    found = read_labelled_images(None, "test")
    if number is not None and number >= len(found):
        raise InputError(f"digits:{number} does not exist; digits are numbered from 0 to {len(found) - 1}")
    rows = range(USUAL_DIGITS) if number is None else range(number, number + 1)
    return [_named(f"digits:{row}", found[row].image, found[row].label) for row in rows]


def _scenes(captioner: Captioner, number: int | None) -> list[ImageText]:
    rows = range(USUAL_DIGITS) if number is None else range(number, number + 1)
    scenes = scenes_to_test(captioner, rows.stop)
    return [_named(f"scenes:{row}", scenes[row].frames, scenes[row].caption) for row in rows]


def scenes_to_test(captioner: Captioner, size: int) -> Scenes:
    """Builtin test images like those that the model was trained on.

    Raises:
        InputError: for a model that was trained on files.
    """
    from regard.structure import from_mapping
    from regard.tasks.caption_data import CaptionData

    section = captioner.recipe.get("data")
    data = from_mapping(CaptionData, section, "the recipe's data") if section else CaptionData()
    if data.scenes is None:
        raise InputError("scenes are for a model that was trained on them (data.scenes); give image files to this one")
    return data.scenes.scenes("test", size, int(captioner.recipe.get("seed", 0)))


# Pieces of music named on the command line: MIDI files, pieces in a file of chorales, builtin motifs.


MOTIFS = "motifs"
CHORALE = re.compile(r"(.+\.json):(\d+)", re.IGNORECASE)


def words_of(place: str, model: LanguageModel, writing: Writing) -> list[str]:
    """The words of one piece of music.

    Arguments:
        place: a MIDI file; `chorales.json:3`, the fourth test piece of a file of chorales; `motifs:3`, the fourth builtin test
            melody like those that the model was trained on.
        model: that is to read the words.
        writing: its representation of music.

    Raises:
        InputError: for a place without a piece, and for motifs with a model of another number of voices.
    """
    match = re.fullmatch(rf"{MOTIFS}(?::(\d+))?", place)
    if match is not None and not Path(place).exists():
        number = int(match[1] or 0)
        return test_melodies(model, number + 1)[number].split()
    numbered = CHORALE.fullmatch(place)
    if numbered is not None or Path(place).suffix.lower() == ".json":
        path, number = (numbered[1], int(numbered[2])) if numbered is not None else (place, 0)
        return _chorale(path, number, writing)
    return writing.of_file(place)


def test_melodies(model: LanguageModel, size: int) -> Motifs:
    """Builtin test melodies like those that the model was trained on.

    Raises:
        InputError: for a model that was trained on files.
    """
    from regard.structure import from_mapping
    from regard.tasks.language_task import TextData

    section = model.recipe.get("data")
    motifs = from_mapping(TextData, section, "the recipe's data").motifs if section else None
    if motifs is None:
        raise InputError("motifs are for a model that was trained on them (data.motifs); give a MIDI file to this one")
    return motifs.melodies("test", size, int(model.recipe.get("seed", 0)))


def _chorale(path: str, number: int, writing: Writing) -> list[str]:
    from regard.data.music import read_chorales

    pieces = read_chorales(path, "test", voices=writing.grid.voices)
    if number >= len(pieces):
        raise InputError(f"{path}: has {len(pieces)} test pieces, numbered from 0; there is no {number}")
    return writing.of_steps(pieces[number])
