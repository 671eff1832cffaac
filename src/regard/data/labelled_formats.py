"""How the files of known sets of labelled texts are laid out, as plain data: GLUE's files as distributed, and a few more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Columns(NamedTuple):
    """Where the parts of a labelled text stand: each a column's index from 0 or its name in the header, None where there is none.

    `place` is the index of a word among the words between spaces: "7" in the text, or "7-2" in the text and in its pair.
    """

    text: int | str
    pair: int | str | None = None
    label: int | str | tuple[int | str, ...] | None = None
    place: int | str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledFormat:
    """The layout of one set's files. All of them are parted by tabs, and quotes in them are ordinary characters.

    Arguments:
        header: the columns as the header calls them; None where no file of the set has a header. A file whose header lacks the
            label is a test file.
        columns: the columns of files without a header; None where every file has one.
        ragged: whether rows may have further columns.
        values: how the labels stand in the file; empty where any text may stand there.
        labels: what each of the values means, in the usual order of the classes.
        number: whether the label is a number.
        label_file: what in a file's name is replaced by what to name the file whose lines are the labels.
        names_file: a file in the same folder, a JSON object, that says what each value means.
        metrics: what is usually reported, the first one foremost; functions of `regard.metrics`. An F1 is of the last class.
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
        ),  # the benchmark's own files: genre, file, year, id, score, sentences, at times two sources
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
    # A word in two contexts (Pilehvar, Camacho-Collados 2019): word, part of speech, places, sentences; labels beside.
    "wic": LabelledFormat(
        columns=Columns(3, 4, None, 2),
        values=("F", "T"),
        labels=("different", "same"),
        label_file=(".data.", ".gold."),
    ),
    # A word in a context (Loureiro et al. 2021): place, sentence; senses beside.
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
"""By the name that `regard.data.labelled.read_labelled` takes as `format`."""
