"""Reading labelled texts: one or two texts with a class or a number, from any table or from the files of known data sets."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.data.lines import files_of, read_each, read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    first_fault,
    malformed_row,
    read_rows,
    short,
    text_fault,
    usable,
)
from regard.data.objects import read_document
from regard.data.rows import listed, parts_of, sound
from regard.data.tables import FORMATS, tsv_rows
from regard.data.text_columns import (
    Columns,
    FoundParts,
    Parts,
    other_columns,
    parts_of_file,
    parts_of_mapping,
    parts_of_table,
    with_labels,
)
from regard.errors import InputError, nearest
from regard.reading import AnyPath

__all__ = [
    "LABELLED_FORMATS",
    "LabelledText",
    "MalformedRow",
    "MalformedRows",
    "labelled_in_memory",
    "labelled_row",
    "read_labelled",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledFormat:
    """The layout of the files of one data set. They are separated by tabs, and quotes are ordinary characters.

    Arguments:
        header: the names of the columns in the header; None if the files have no header. A file whose header lacks the label
            is a test file.
        columns: the indices of the columns in files without a header; None if every file has one.
        ragged: whether rows may have additional columns.
        values: the labels as written in the file; empty if any text is allowed.
        labels: the class name of each value, in the usual order of the classes.
        number: whether the label is a number.
        label_file: (old, new): replacing `old` by `new` in the file's name gives the name of the file with the labels.
        names_file: a JSON file in the same folder that maps each value to its class name.
        metrics: the metrics that are usually reported, the most important first; functions of `regard.metrics`. F1 is
            computed for the last class.
    """

    header: Columns | None = None
    columns: Columns | None = None
    ragged: bool = False
    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    number: bool = False
    label_file: tuple[str, str] | None = None
    names_file: str | None = None
    metrics: tuple[str, ...] = ("accuracy",)


_ENTAILMENT = ("entailment", "neutral", "contradiction")
_ENTAILED = ("entailment", "not_entailment")

LABELLED_FORMATS: dict[str, LabelledFormat] = {
    # GLUE (Wang et al. 2018). Its test files begin with a header and an index and have no labels.
    "cola": LabelledFormat(
        header=Columns("sentence", None, "label"),
        columns=Columns(3, None, 1),  # source, label, the author's own mark, sentence
        values=("0", "1"),
        labels=("unacceptable", "acceptable"),
        metrics=("matthews_correlation", "accuracy"),
    ),
    "sst2": LabelledFormat(
        header=Columns("sentence", None, "label"),
        columns=Columns(0, None, 1),  # the whole sentences, outside GLUE
        values=("0", "1"),
        labels=("negative", "positive"),
    ),
    "mrpc": LabelledFormat(
        header=Columns("#1 String", "#2 String", "Quality"),
        values=("0", "1"),
        labels=("not_equivalent", "equivalent"),
        metrics=("f1", "accuracy"),
    ),
    "qqp": LabelledFormat(
        header=Columns("question1", "question2", "is_duplicate"),
        values=("0", "1"),
        labels=("not_duplicate", "duplicate"),
        metrics=("f1", "accuracy"),
    ),
    "stsb": LabelledFormat(
        header=Columns("sentence1", "sentence2", "score"),
        columns=Columns(
            5, 6, 4
        ),  # the benchmark's own files: genre, file, year, id, score, two sentences, sometimes two sources
        ragged=True,
        number=True,
        metrics=("pearson", "spearman"),
    ),
    "mnli": LabelledFormat(
        header=Columns("sentence1", "sentence2", "gold_label"), values=_ENTAILMENT, labels=_ENTAILMENT
    ),
    "snli": LabelledFormat(
        header=Columns("sentence1", "sentence2", "gold_label"), values=_ENTAILMENT, labels=_ENTAILMENT
    ),
    "qnli": LabelledFormat(header=Columns("question", "sentence", "label"), values=_ENTAILED, labels=_ENTAILED),
    "rte": LabelledFormat(header=Columns("sentence1", "sentence2", "label"), values=_ENTAILED, labels=_ENTAILED),
    "wnli": LabelledFormat(
        header=Columns("sentence1", "sentence2", "label"), values=("0", "1"), labels=("not_entailment", "entailment")
    ),
    # A word in two contexts (Pilehvar, Camacho-Collados 2019): word, part of speech, positions, sentences; a file of labels.
    "wic": LabelledFormat(
        columns=Columns(3, 4, None, 2),
        values=("F", "T"),
        labels=("different", "same"),
        label_file=(".data.", ".gold."),
    ),
    # A word in a context (Loureiro et al. 2021): position, sentence; senses in another file.
    "coarsewsd-20": LabelledFormat(
        columns=Columns(1, None, None, 0), label_file=(".data.", ".gold."), names_file="classes_map.txt"
    ),
    # Almeida, Gomez Hidalgo, Yamakami 2011.
    "sms-spam": LabelledFormat(
        columns=Columns(1, None, 0), values=("ham", "spam"), labels=("ham", "spam"), metrics=("f1", "accuracy")
    ),
    # Maas et al. 2011, as a table.
    "imdb": LabelledFormat(
        header=Columns("text", None, "label"), values=("neg", "pos"), labels=("negative", "positive")
    ),
}
"""The known data sets, by the name that `regard.data.labelled.read_labelled` takes as `format`."""


ROW = "(text, label), or ((first, second), label)"
"""The form of a row in memory, for messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledText:
    """One or two texts with a label.

    Arguments:
        text: the text, or the first of two.
        pair: the second text; None if there is only one.
        label: the name of a class, or a number; None in data without labels.
        labels: several classes (any number of them) or several numbers, if they are given as a list; else None.
        file, line: the file and the line (from 1) it was read from.
        places: for data about one word, the index of that word among the words separated by spaces, in `text` and then in
            `pair`.
        rest: the other columns of the row by name, if they were requested.

    >>> LabelledText(text="fine", label="positive", file="reviews.tsv", line=3).label
    'positive'
    """

    text: str
    pair: str | None = None
    label: str | float | None = None
    file: str
    line: int
    places: tuple[int, ...] = ()
    labels: tuple[str | float, ...] | None = None
    rest: Mapping[str, Any] | None = None


class _Labelling(NamedTuple):
    """How labels are read.

    `number`: as a number. `names`: else each allowed value with its class name, or None for any text. `several`: a label may
    also be a list of these, or one text that contains several.
    """

    number: bool
    names: Mapping[str, str] | None
    several: bool = False


def read_labelled(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str = "auto",
    text: int | str | None = None,
    pair: int | str | None = None,
    label: int | str | Sequence[int | str] | None = None,
    several: bool = False,
    header: bool | Literal["auto"] = "auto",
    number: bool = False,
    labels: Sequence[str] | None = None,
    labelled: bool = True,
    label_file: AnyPath | None = None,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
    rest: bool = False,
) -> Iterator[LabelledText]:
    r"""The labelled texts of one file, or of several in turn, one by one; no file is held in memory.

    Files are UTF-8, plain or gzip (recognised by content), with or without a byte-order mark, with LF or CRLF line ends.
    Texts are returned unchanged, labels without surrounding whitespace.

    Columns that are not given are found by their usual names in the header or the object: text and pair, sentence1 and
    sentence2, premise and hypothesis, question1 and question2, question and sentence, text, or sentence; label, score, or
    gold_label. A header with other names is recognised too; the file is refused if its columns cannot be identified. In a
    table without a header the text is column 0 and the label is the last column that is neither text nor pair.
    `malformed.columns` records which columns were read.

    Arguments:
        path: a file or several; or `hub:owner/name[:configuration][@split]`, a dataset of the Hugging Face hub.
        format: `tsv` (no quoting), `csv` (quoting as in RFC 4180), `jsonl` (one object per line), or `auto` (by the file's
            name, else by its first line); or the name of a known data set in `LABELLED_FORMATS`, which defines the columns
            and the labels of its files as they are distributed.
        text, pair, label: the column or key of each part: an index from 0 or a name in the header; in JSONL and hub datasets
            a key, where "a.b" means key "b" of the object under "a". If the target is several numbers, `label` is several
            columns or keys.
        several: whether a text may have any number of labels, including none. A list of labels becomes `labels`; one text that
            contains all of them is kept in `label` unchanged.
        header: whether the first line of a table is a header. `auto`: it is if a column is given by name or the line looks
            like a header; if that is unclear, the file is refused.
        number: whether the label is a number.
        labels: the classes; a row with any other label is malformed. None to accept every label.
        labelled: whether labels are read. If False, every label is None, and files without labels can be read.
        label_file: a file with the label of each row of `path`, one per line. For known data sets in two files (`wic`,
            `coarsewsd-20`) it is found by its name.
        on_error: what to do with a malformed row: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed rows are recorded.
        rest: whether the other columns of each row are kept.

    Raises:
        InputError: if a file cannot be used at all (missing, empty, binary, wrong encoding, broken gzip, a column is missing,
            no usable row); raised by the call or while reading. Also for a malformed row if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "dev.tsv"
    >>> _ = file.write_text("sentence\tlabel\na charming film\t1\n\t0\n")
    >>> malformed = MalformedRows()
    >>> [(row.text, row.label) for row in read_labelled(file, format="sst2", malformed=malformed)]
    [('a charming film', 'positive')]
    >>> malformed.by_reason
    {'empty text': 1}
    """
    known = LABELLED_FORMATS.get(format)
    if known is None and format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, (*FORMATS, *LABELLED_FORMATS))}")
    if known is not None and (
        any(part is not None for part in (text, pair, label, labels)) or number or header != "auto"
    ):
        raise InputError(
            f"data format {format!r} already sets the columns and labels; leave out text, pair, label, labels, number and header"
        )
    columns = label if isinstance(label, int | str | None) else tuple(label)
    files = files_of(path, "labelled texts")
    if label_file is not None and len(files) > 1:
        raise InputError(f"label_file belongs to one file of texts, and {len(files)} are given; give one")
    label_name = None if label_file is None or not labelled else os.fspath(label_file)

    def one(place: AnyPath) -> Iterator[LabelledText]:
        name = os.fspath(place)
        if known is not None:
            return _known(name, format, known, labelled, label_name, on_error, malformed, rest)
        labelling = _Labelling(number, None if labels is None else dict(zip(labels, labels, strict=True)), several)
        wants_label = labelled and label_name is None
        raw = parts_of_file(name, format, (text, pair, columns), header, wants_label, malformed, rest)
        if label_name is not None:
            raw = with_labels(name, raw, label_name)
        needed = "each row needs a text" + (" and a label" if labelled else "")
        needed += "; say which columns or keys they are as text, pair and label"
        return usable(_examples(name, raw, labelled, labelling), name, needed, on_error, malformed)

    return read_each(files, one)


def labelled_in_memory(
    given: Any, text: str | None = None, pair: str | None = None, label: str | tuple[str, ...] | None = None
) -> list[LabelledText]:
    """Labelled texts from rows in memory: (text, label), ((first, second), label), or mappings.

    Labels are kept unchanged, and may be missing.

    Arguments:
        given: the rows.
        text, pair, label: the keys in mappings; if not given, the usual names that `read_labelled` looks for in JSONL.

    Raises:
        InputError: for the first row that is not a labelled text, or that has an empty text.

    >>> [(row.text, row.label) for row in labelled_in_memory([("fine", 1), {"id": 7, "text": "poor", "label": 0}])]
    [('fine', 1), ('poor', 0)]
    """
    return [
        labelled_row(row, f"example {number}", number, text, pair, label)
        for number, row in enumerate(listed(given, "labelled texts", ROW), start=1)
    ]


def labelled_row(
    row: Any,
    where: str,
    number: int,
    text: str | None = None,
    pair: str | None = None,
    label: str | tuple[str, ...] | None = None,
) -> LabelledText:
    """The labelled text in one row in memory.

    Arguments:
        row: (text, label), ((first, second), label), a mapping, or a `LabelledText`.
        where: the name of the row in messages.
        number: the number of the row, from 1.
        text, pair, label: as in `labelled_in_memory`.

    Raises:
        InputError: as `labelled_in_memory`.
    """
    if isinstance(row, LabelledText):
        if (fault := text_fault("text", row.text)) is not None:
            sound(malformed_row(row.file, row.line, *fault), ROW)
        return row
    if isinstance(row, Mapping):
        first, second, held = parts_of_mapping(row, where, (text, pair, label), ROW)
    else:
        content, held = parts_of(row, where, [["text"], ["label"]], ROW)
        first, second = content, None
        if isinstance(content, tuple | list):
            first, second = parts_of(content, f"the text of {where}", [["text"], ["pair"]], "(first, second)")
    read = _example("examples", number, Parts(first, second, None, None), False, _Labelling(False, None))
    held = held.tolist() if hasattr(held, "tolist") else held
    several = tuple(held) if isinstance(held, list | tuple | set | frozenset) else None
    return dataclasses.replace(sound(read, ROW), label=None if several is not None else held, labels=several)


def _known(
    name: str,
    format: str,
    known: LabelledFormat,
    labelled: bool,
    label_name: str | None,
    on_error: str,
    malformed: MalformedRows | None,
    rest: bool,
) -> Iterator[LabelledText]:
    """The labelled texts of a file in the layout of a known data set."""
    rows = tsv_rows(name, read_lines(name))
    first = next(rows)
    rows = itertools.chain([first], rows)
    cells = [] if isinstance(first, MalformedRow) else [cell.strip() for cell in first[1]]
    header = known.header
    headed = header is not None and header.text in cells and (header.pair is None or header.pair in cells)
    columns = header if headed else known.columns
    if columns is None:
        wanted = " and ".join(repr(column) for column in (header or ()) if column is not None)
        raise InputError(
            f"{name}: the first line of a file of the format {format!r} names its columns, among them {wanted}"
        )
    if known.label_file is not None and labelled and label_name is None:
        label_name = _label_file_of(name, known.label_file)
    if not labelled:
        columns = columns._replace(label=None)
    elif label_name is None and headed and columns.label not in cells:
        raise InputError(
            f"{name}: has no column {columns.label!r}, so it is a test file; it can be read only without labels"
        )
    others = other_columns([first], columns, True) if rest and headed else ()
    raw = parts_of_table(name, rows, columns, headed, known.ragged, others)
    if label_name is not None:
        raw = with_labels(name, raw, label_name)
    labelling = _Labelling(known.number, dict(zip(known.values, known.labels, strict=True)) or _names(name, known))
    needed = f"each line needs to be of the format {format!r}"
    return usable(_examples(name, raw, labelled, labelling), name, needed, on_error, malformed)


def _label_file_of(name: str, part: tuple[str, str]) -> str:
    """The file with the labels of the texts in `name`, which has part[1] in place of part[0] in its name."""
    file = Path(name)
    other = str(file.with_name(file.name.replace(*part)))
    if other == name or not Path(other).exists():
        raise InputError(
            f"{name}: its labels are in a separate file, and {other!r} is missing; give it as label_file, or read the texts "
            "without labels"
        )
    return other


def _names(name: str, known: LabelledFormat) -> Mapping[str, str] | None:
    file = Path(name).with_name(known.names_file) if known.names_file else None
    if file is None or not file.exists():
        return None
    names = read_document(file)
    if not isinstance(names, dict) or not all(isinstance(value, str) for value in names.values()):
        raise InputError(f"{file}: is not a JSON object from labels to their names; fetch it again or remove it")
    return names


def _examples(
    name: str, rows: FoundParts, labelled: bool, labelling: _Labelling
) -> Iterator[LabelledText | MalformedRow]:
    return read_rows(rows, lambda line, parts: _example(name, line, parts, labelled, labelling))


def _example(name: str, line: int, parts: Parts, labelled: bool, labelling: _Labelling) -> LabelledText | MalformedRow:
    texts = [("text", parts.text)] + ([("pair", parts.pair)] if parts.pair is not None else [])
    fault = first_fault(texts)
    if fault is not None:
        return malformed_row(name, line, *fault)
    places = () if parts.place is None else _places(str(parts.place), [str(text) for _, text in texts])
    if places is None:
        return malformed_row(name, line, "place outside the text", short(parts.place))
    label, labels = None, None
    if labelled and labelling.several and not (isinstance(parts.label, str) and not labelling.number):
        given = parts.label if isinstance(parts.label, list | tuple) else [] if parts.label is None else [parts.label]
        read = [_label(each, labelling) for each in given]
        fault = next((each for each in read if isinstance(each, tuple)), None)
        if fault is not None:
            return malformed_row(name, line, *fault)
        labels = tuple(each for each in read if not isinstance(each, tuple))
    elif labelled and labelling.several:
        label = str(parts.label).strip()
    elif labelled:
        label = _label(parts.label, labelling)
        if isinstance(label, tuple):
            return malformed_row(name, line, *label)
    pair = None if parts.pair is None else str(parts.pair)
    return LabelledText(
        text=str(parts.text),
        pair=pair,
        label=label,
        file=name,
        line=line,
        places=places,
        labels=labels,
        rest=parts.rest,
    )


def _places(value: str, texts: list[str]) -> tuple[int, ...] | None:
    """The word indices in "7" or "7-2", one per text; None if they are outside the texts."""
    parts = value.strip().split("-")
    if len(parts) != len(texts) or not all(part.isdecimal() and len(part) < 10 for part in parts):
        return None
    places = tuple(map(int, parts))
    return places if all(place < len(text.split(" ")) for place, text in zip(places, texts, strict=True)) else None


def _label(value: object, labelling: _Labelling) -> str | float | tuple[str, str]:
    """The label, or the reason and detail of its fault."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int) or (isinstance(value, float) and labelling.number):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return "empty label", ""
    if not isinstance(value, str):
        return "not a label", short(value)
    label = value.strip()
    if labelling.number:
        try:
            score = float(label)
        except ValueError:
            score = math.nan
        return score if math.isfinite(score) else ("label is not a number", short(label))
    if labelling.names is not None:
        if label not in labelling.names:
            return "unknown label", f"{short(label)}; {short(', '.join(labelling.names))} are known"
        return labelling.names[label]
    fault = text_fault("label", label)
    return label if fault is None else fault
