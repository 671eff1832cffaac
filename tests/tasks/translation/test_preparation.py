"""From pairs to token stores: what is held out, what is left out, what is counted, and in how much memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.tasks import translation as preparation
from regard.tasks import translation_data
from regard.tasks.preparation import Prepared
from regard.tasks.translation import prepare_pairs
from regard.tasks.translation_data import DatesData, PairTokenizerSettings, SequencesData, TranslationData
from regard.text import Tokenizer

CHARACTERS = PairTokenizerSettings(kind="character", size=60)


def numbered(count: int) -> list[tuple[str, str]]:
    return [(f"s{number}", f"t{number}") for number in range(count)]


@pytest.fixture
def prepared(tmp_path):
    def run(
        data: TranslationData | None = None, *, name: str = "data", tokenizer=CHARACTERS, seed=1, **texts
    ) -> Prepared:
        return prepare_pairs(
            data or TranslationData(validation_size=5),
            tokenizer,
            GenerationSettings(),
            tmp_path / name,
            seed=seed,
            **texts,
        )

    return run


def texts(result: Prepared, split: str) -> list[tuple[str, str]]:
    store = getattr(result, split)
    return [
        (
            result.task.source_tokenizer.decode(store.sequence("source", row).tolist()),
            result.task.target_tokenizer.decode(store.sequence("target", row).tolist()),
        )
        for row in range(len(store))
    ]


def test_some_pairs_are_held_out_and_none_is_in_both(prepared):
    pairs = numbered(60)
    result = prepared(given=pairs)
    train, held_out = texts(result, "train"), texts(result, "validation")
    assert (len(train), len(held_out)) == (55, 5)
    assert sorted(train + held_out) == sorted(pairs)
    assert train == [pair for pair in pairs if pair not in held_out]
    assert held_out != pairs[:5], "the choice is drawn"


def test_the_seed_decides_which(prepared):
    one, same, other = (
        texts(prepared(given=numbered(60), name=name, seed=seed), "validation")
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one == same != other


def test_at_most_a_tenth_is_held_out(prepared):
    assert len(prepared(TranslationData(validation_size=500), given=numbered(40)).validation) == 4


def test_validation_pairs_of_ones_own(prepared):
    result = prepared(given=numbered(8), given_validation=[("s3", "t5")])
    assert texts(result, "train") == numbered(8)
    assert texts(result, "validation") == [("s3", "t5")]


@pytest.mark.parametrize("count", [1, 9])
def test_too_few_pairs(count, prepared):
    with pytest.raises(InputError, match=rf"^{count} pairs are too few"):
        prepared(given=numbered(count))


@pytest.mark.parametrize("side", ["given", "given_validation"])
def test_an_empty_list(side, prepared):
    with pytest.raises(InputError, match="give a list of examples"):
        prepared(**({"given": numbered(20)} | {side: []}))


def test_malformed_rows_are_counted_once_and_reported(prepared, tmp_path):
    rows = [f"{source}\t{target}" for source, target in numbered(40)]
    rows[3], rows[17] = "only one column", "\tempty source"
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(rows) + "\n")
    for shared in (True, False):
        tokenizer = PairTokenizerSettings(kind="character", size=60, shared=shared)
        data = TranslationData(train=str(path), validation_size=4)
        result = prepared(data, tokenizer=tokenizer, name=f"data-{shared}")
        # The file was read three times or four: for the tokenizers, for training and for validation.
        (note,) = result.notes
        assert note.startswith("2 malformed rows were left out")
        assert "pairs.tsv, line 4" in note
        assert "\n" not in note
        assert len(result.train) + len(result.validation) == 38


def test_malformed_rows_of_both_files_are_added_up(prepared, tmp_path):
    for name, bad in (("train", 2), ("valid", 1)):
        rows = [f"{source}\t{target}" for source, target in numbered(20)] + ["one column"] * bad
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    data = TranslationData(train=str(tmp_path / "train.tsv"), validation=str(tmp_path / "valid.tsv"))
    assert prepared(data).notes[0].startswith("3 malformed rows")


def test_a_malformed_row_stops_where_asked(prepared, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\nc\n" * 20)
    with pytest.raises(InputError, match=r"pairs\.tsv.*line 2|line 2.*pairs\.tsv"):
        prepared(TranslationData(train=str(path), on_error="stop"))


def test_long_pairs_are_left_out_of_training_and_counted(prepared):
    pairs = [*numbered(50), ("x" * 9, "y"), ("x", "y" * 9), ("x" * 8, "y" * 8)]
    result = prepared(TranslationData(maximum_tokens=8), given=pairs, given_validation=[("z" * 20, "z")])
    assert texts(result, "train") == [*numbered(50), ("x" * 8, "y" * 8)]
    assert len(result.validation) == 1
    assert result.notes == ("2 of 53 pairs are longer than data.maximum_tokens = 8 and were left out.",)


def test_nothing_short_enough_is_left(prepared):
    with pytest.raises(InputError, match=r"all 20 are longer than data\.maximum_tokens"):
        prepared(TranslationData(maximum_tokens=1), given=numbered(20), given_validation=numbered(2))


def test_builtin_dates(prepared):
    pytest.importorskip("babel")
    data = TranslationData(dates=DatesData(size=50, validation_size=7, languages=("en", "cs")))
    result = prepared(data, tokenizer=PairTokenizerSettings(kind="character", size=200, shared=False))
    assert (len(result.train), len(result.validation)) == (50, 7)
    days = [{target for _, target in texts(result, split)} for split in ("train", "validation")]
    assert days[0].isdisjoint(days[1])


WORDS = PairTokenizerSettings(kind="word", size=200)


def test_builtin_sequences(prepared):
    data = TranslationData(
        sequences=SequencesData(kind="sorting", symbols=9, shortest=4, longest=5, size=60, validation_size=9)
    )
    result = prepared(data, tokenizer=WORDS)
    train, validation = texts(result, "train"), texts(result, "validation")
    assert (len(train), len(validation)) == (60, 9)
    assert {source for source, _ in train}.isdisjoint(source for source, _ in validation)
    assert all(target.split() == sorted(source.split()) for source, target in train + validation)
    assert texts(prepared(data, tokenizer=WORDS, name="other", seed=2), "train") != train


@pytest.mark.parametrize("shared", [True, False])
def test_the_vocabulary_covers_symbols_that_the_draw_lacks(shared, prepared):
    sequences = SequencesData(kind="dictionary", symbols=90, shortest=3, longest=3, size=5, validation_size=20)
    tokenizer = PairTokenizerSettings(kind="word", size=200, shared=shared)
    task = prepared(TranslationData(sequences=sequences), tokenizer=tokenizer).task
    source, target = sequences.alphabet()
    assert task.source_tokenizer.unknown_id not in task.source_tokenizer.encode(source)
    assert task.target_tokenizer.unknown_id not in task.target_tokenizer.encode(target)


def test_a_vocabulary_too_small_for_the_symbols_is_refused(prepared, tmp_path):
    data = TranslationData(sequences=SequencesData(size=50, validation_size=5))
    with pytest.raises(InputError, match=r"does not know all 40 symbols of data; raise tokenizer\.size = 20$"):
        prepared(data, tokenizer=PairTokenizerSettings(kind="word", size=20))
    other = prepared(given=numbered(30), name="other")
    other.task.source_tokenizer.save(tmp_path / "mine")
    with pytest.raises(InputError, match=r"does not know all 40 symbols.*leave out tokenizer\.path"):
        prepared(data, tokenizer=PairTokenizerSettings(path=str(tmp_path / "mine")), name="again")


def test_more_sequences_than_there_are_is_told_before_anything_is_read(prepared, monkeypatch):
    monkeypatch.setattr(preparation.Tokenizer, "train", None)
    few = SequencesData(kind="copy", symbols=4, shortest=3, longest=3, size=40, validation_size=7)
    with pytest.raises(InputError, match=r"only about 6 different sources .*'validation'"):
        prepared(TranslationData(sequences=few), tokenizer=WORDS)


# --- several languages -----------------------------------------------------------------------------------------


def languages(tmp_path: Path, **sizes: int) -> dict[str, TranslationData]:
    """For each name a file of pairs from the same sources to the name and a number."""
    data = {}
    for name, size in sizes.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"s{number}\t{name}{number}\n" for number in range(size)))
        data[name] = TranslationData(train=str(path), validation_size=3)
    return data


@pytest.mark.parametrize("shared", [True, False])
def test_every_source_begins_with_its_languages_tag(shared, prepared, tmp_path):
    data = TranslationData(targets=languages(tmp_path, de=40, fr=60))
    result = prepared(data, tokenizer=PairTokenizerSettings(kind="character", size=60, shared=shared))
    task = result.task
    assert task.languages == ("de", "fr")
    assert task.source_tokenizer.extra_tokens == ("<2de>", "<2fr>")
    assert task.target_tokenizer.extra_tokens == (("<2de>", "<2fr>") if shared else ())
    counts = {"de": 0, "fr": 0}
    for store, held_out in ((result.train, False), (result.validation, True)):
        for row in range(len(store)):
            first, *rest = store.sequence("source", row).tolist()
            target = task.target_tokenizer.decode(store.sequence("target", row).tolist())
            (name,) = task.source_tokenizer.tokens([first])
            assert name == f"<2{target[:2]}>"
            assert first not in rest
            assert task.source_tokenizer.decode(rest) == f"s{target[2:]}"
            counts[target[:2]] += 1 if not held_out else 100
    assert counts == {"de": 37 + 300, "fr": 57 + 300}


def test_of_parallel_files_the_same_lines_are_held_out(prepared, tmp_path):
    """Else a sentence held out in one language would be trained on in the other."""
    result = prepared(TranslationData(targets=languages(tmp_path, de=50, fr=50)))
    sources = [source for source, _ in texts(result, "validation")]
    assert len(sources) == 6
    assert sources[:3] == sources[3:]


def test_notes_say_of_which_language(prepared, tmp_path):
    data = languages(tmp_path, de=50, fr=50)
    with (tmp_path / "fr.tsv").open("a") as file:
        file.write("alone\nlong\t" + "x" * 30 + "\n")
    data["fr"] = TranslationData(train=str(tmp_path / "fr.tsv"), validation_size=3, maximum_tokens=20)
    notes = prepared(TranslationData(targets=data)).notes
    assert [note.split(" ")[0] for note in notes] == ["data.targets.fr:", "data.targets.fr:"]
    assert "1 malformed row" in notes[0]
    assert "1 of 51 pairs are longer" in notes[1]


def test_faults_of_one_language_name_it(prepared, tmp_path):
    data = languages(tmp_path, de=50, fr=5)
    with pytest.raises(InputError, match=r"5 pairs are too few .* data\.targets\.fr\.validation"):
        prepared(TranslationData(targets=data))
    with pytest.raises(InputError, match=r"data\.targets\.fr\.train is missing"):
        prepared(TranslationData(targets=data | {"fr": TranslationData()}))
    short = TranslationData(train=str(tmp_path / "de.tsv"), validation_size=3, maximum_tokens=1)
    with pytest.raises(InputError, match=r"all 47 are longer than data\.targets\.de\.maximum_tokens"):
        prepared(TranslationData(targets={"de": short, "fr": languages(tmp_path, fr=40)["fr"]}))


def test_pairs_in_memory_have_no_language(prepared, tmp_path):
    data = TranslationData(targets=languages(tmp_path, de=50, fr=50))
    with pytest.raises(InputError, match="belong to no language"):
        prepared(data, given=numbered(30))


def test_a_tokenizer_of_ones_own_needs_the_tags(prepared, tmp_path):
    data = TranslationData(targets=languages(tmp_path, de=50, fr=50))
    Tokenizer.train(["s0 de fr 123456789"], kind="character", size=40).save(tmp_path / "without")
    with pytest.raises(InputError, match=r"has no special token <2de>, which data\.targets needs"):
        prepared(data, tokenizer=PairTokenizerSettings(path=str(tmp_path / "without")))
    Tokenizer.train(["s0 de fr 123456789"], kind="character", size=40, extra_tokens=["<2fr>", "<2de>"]).save(
        tmp_path / "with"
    )
    result = prepared(data, tokenizer=PairTokenizerSettings(path=str(tmp_path / "with")), name="again")
    assert result.task.languages == ("de", "fr")


def test_a_tokenizer_of_ones_own(prepared, tmp_path):
    first = prepared(given=numbered(30), name="first")
    first.task.source_tokenizer.save(tmp_path / "mine")
    result = prepared(given=numbered(40), name="second", tokenizer=PairTokenizerSettings(path=str(tmp_path / "mine")))
    assert result.task.source_tokenizer == first.task.source_tokenizer
    assert len(result.train) + len(result.validation) == 40


def test_what_is_prepared_is_taken_as_it_is(prepared, monkeypatch):
    first = prepared(given=numbered(30))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("prepared twice")

    monkeypatch.setattr(preparation, "_tokenizers", never)
    again = prepared(given=numbered(30))
    assert again.task == first.task
    assert texts(again, "train") == texts(first, "train")
    assert again.notes == first.notes


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("moment", [1, 2])
def test_a_preparation_that_was_killed_begins_anew(moment, shared, prepared, tmp_path, monkeypatch):
    """Killed while the training or the validation tokens are written, by another recipe even."""
    real, calls = TokenStore.write, []

    def write(folder, columns, rows):
        calls.append(folder)
        if len(calls) == moment:
            (Path(folder).parent / f".{Path(folder).name}.1.abcd.partial").mkdir()
            raise KeyboardInterrupt
        return real(folder, columns, rows)

    monkeypatch.setattr(TokenStore, "write", write)
    settings = [PairTokenizerSettings(kind="character", size=60, shared=value) for value in (not shared, shared)]
    with pytest.raises(KeyboardInterrupt):
        prepared(given=numbered(30), tokenizer=settings[0])
    monkeypatch.undo()
    found = prepared(given=numbered(40), tokenizer=settings[1])
    clean = prepared(given=numbered(40), tokenizer=settings[1], name="clean")

    def files(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert found.task == clean.task
    assert files(tmp_path / "data") == files(tmp_path / "clean")
    assert not list((tmp_path / "data").glob(".*"))


# --- more than fits into memory -------------------------------------------------------------------------------


def test_tokens_stay_on_disk(prepared):
    result = prepared(given=numbered(100))
    tokens = result.train.sequence("source", 3)
    while isinstance(tokens.base, np.ndarray):
        tokens = tokens.base
    assert isinstance(tokens.base, mmap.mmap)


class Counted:
    """A pair that counts how many of its kind are alive."""

    alive = most = 0
    file, line = "pairs.tsv", 1

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1


def test_pairs_pass_through_in_a_stream(prepared, monkeypatch):
    monkeypatch.setattr(Counted, "most", 0)
    monkeypatch.setattr(
        translation_data, "read_pairs", lambda *_, **__: (Counted(source, target) for source, target in numbered(6000))
    )
    result = prepared(TranslationData(train="pairs.tsv", validation_size=100))
    assert len(result.train) + len(result.validation) == 6000
    assert Counted.most < 2100, "two chunks are in memory, and no more"


def test_auto_chooses_for_source_and_target_and_says_what(prepared):
    words = ["one", "two", "three", "four", "five"]
    pairs = [(str(number), " ".join(words[int(digit) % 5] for digit in str(number))) for number in range(100, 160)]
    auto = PairTokenizerSettings(kind="auto", size=60, shared=False)
    result = prepared(given=pairs, tokenizer=auto)
    source = result.task.source_tokenizer
    assert source.tokens(source.encode("120")) == ["1", "2", "0"]
    assert len(result.task.target_tokenizer.encode("one three")) == 2
    assert [note.split(".")[0] for note in result.notes] == [
        "tokenizer of the source: character; digits and signs are most of it",
        "tokenizer of the target: bpe; its words recur",
    ]
    again = prepared(given=pairs, tokenizer=auto)
    assert again.task.source_tokenizer.encode("120") == result.task.source_tokenizer.encode("120")
    both = prepared(given=pairs, tokenizer=PairTokenizerSettings(kind="auto", size=60), name="shared")
    assert "source and target" in both.notes[0]
