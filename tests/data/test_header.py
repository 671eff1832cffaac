"""Tables whose columns nobody names: the header is recognised, said, or the table is refused."""

from __future__ import annotations

import pytest

from regard.data.labelled import read_labelled
from regard.data.malformed import MalformedRows
from regard.data.pairs import read_pairs
from regard.errors import InputError
from regard.tasks.sentence_data import SENTENCE_PAIRS, SentenceData


def file(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected", "told"),
    [
        ("source,target\na,b\nc,d\n", [("a", "b"), ("c", "d")], "source is 'source', target 'target'"),
        ("Target,Source\na,b\n", [("b", "a")], "source is 'Source', target 'Target'"),
        ("id,question,answer\n1,a,b\n2,c,d\n", [("a", "b"), ("c", "d")], "not read: 'id'"),
        (",input,output\n0,a,b\n1,c,d\n", [("a", "b"), ("c", "d")], "not read: ''"),
        ("words;number\na;1\nb, c;2\n", [("a", "1"), ("b, c", "2")], "source is 'words', target 'number'"),
        ("a,b\nc,d\n", [("a", "b"), ("c", "d")], None),
        ("a,b,x\nc,d,x\n", [("a", "b"), ("c", "d")], "not read: column 2"),
        ("one,1\ntwo,2\n", [("one", "1"), ("two", "2")], None),
    ],
)
def test_pairs_without_named_columns(tmp_path, text, expected, told):
    malformed = MalformedRows()
    found = list(read_pairs(file(tmp_path, text), malformed=malformed))
    assert [(pair.source, pair.target) for pair in found] == expected
    assert (told in malformed.notes[0]) if told is not None else not malformed.notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "id,english,german\n1,a,b\n2,c,d\n",
            "its columns are 'id', 'english', 'german'; .*data.source=0 data.target=1",
        ),
        ("1,a,b\n2,c,d\n3,e,f\n", "the first contains row numbers; .*data.source=0"),
        ("question,dog\na,b\nc,d\n", "may be a header or data; .*data.source=0"),
    ],
)
def test_pairs_whose_columns_are_doubtful_are_refused(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        list(read_pairs(file(tmp_path, text)))
    assert len(list(read_pairs(file(tmp_path, text), source=0, target=1))) >= 2


TICKETS = "".join(
    f"T-{number};2026-01-{number + 10};{'buy' if number % 5 == 0 else 'hello'} now;{'spam' if number % 5 == 0 else 'ham'}\n"
    for number in range(20)
)


@pytest.mark.parametrize("columns", [{"text": "Message body", "label": "Routing"}, {"text": 2, "label": 3}])
def test_names_above_ids_and_dates_are_a_header(tmp_path, columns):
    """Named or counted, they are no example; and a row cut short is reported, not a reason to read other columns."""
    path = file(tmp_path, "\ufeffTicket No;received;Message body;Routing\n" + TICKETS + "T-99;cut short\n")
    malformed = MalformedRows()
    found = list(read_labelled(path, malformed=malformed, **columns))
    assert len(found) == 20
    assert {row.label for row in found} == {"spam", "ham"}
    assert found[0].text == "buy now"
    assert malformed.total == 1


SPAM = "".join(f"{number},buy {number},spam\n{number + 50},hello {number},ham\n" for number in range(5))


@pytest.mark.parametrize(
    ("text", "count", "first", "told"),
    [
        ("id,message,category\n" + SPAM, 10, ("buy 0", "spam"), "text is 'message', label 'category'; not read: 'id'"),
        ("Message;Class\nbuy;spam\nhello;ham\n", 2, ("buy", "spam"), "text is 'Message', label 'Class'"),
        ("class,text\nspam,buy\nham,hello\n", 2, ("buy", "spam"), "text is 'text', label 'class'"),
        ("text,label\nbuy,spam\n", 1, ("buy", "spam"), None),
        ("buy,spam\nhello,ham\n", 2, ("buy", "spam"), "no header; text is column 0, label column 1"),
        ("buy,2,spam\nhello,2,ham\n", 2, ("buy", "spam"), "not read: column 1"),
    ],
)
def test_labelled_texts_without_named_columns(tmp_path, text, count, first, told):
    malformed = MalformedRows()
    found = list(read_labelled(file(tmp_path, text), malformed=malformed))
    assert (len(found), found[0].text, found[0].label) == (count, *first)
    assert (told in malformed.notes[0]) if told is not None else not malformed.notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,wording,kind\n" + SPAM, r"its columns are 'id', 'wording', 'kind'; .*data.text=0 data.label=1"),
        (SPAM, "has no header, and its first column contains row numbers; .*data.text=0"),
        ("what,kind\n" + "buy,spam\nhello,ham\n" * 4, "may be a header or data; .*data.text=0"),
        ("text,review,label\na,b,c\n", None),
        ("comment,review,label\na,b,c\n", "its columns are 'comment', 'review', 'label'"),
    ],
)
def test_labelled_texts_whose_columns_are_doubtful_are_refused(tmp_path, text, words):
    if words is None:
        assert [row.text for row in read_labelled(file(tmp_path, text))] == ["a"]
        return
    with pytest.raises(InputError, match=words):
        list(read_labelled(file(tmp_path, text)))


def test_named_columns_are_not_told(tmp_path):
    malformed = MalformedRows()
    place = file(tmp_path, "id,wording,kind\n" + SPAM)
    assert len(list(read_labelled(place, text="wording", label="kind", malformed=malformed))) == 10
    assert malformed.notes == []


def test_sentence_pairs_without_named_columns(tmp_path):
    malformed = MalformedRows()
    read = SENTENCE_PAIRS.reader(SentenceData(), file(tmp_path, "query,passage\na,b\nc,d\n"))
    assert read is not None
    assert [row.texts for row in read(malformed)] == [("a", "b"), ("c", "d")]
    assert "text is 'query', pair 'passage'" in malformed.notes[0]
    doubtful = SENTENCE_PAIRS.reader(SentenceData(), file(tmp_path, "id,query,other\n1,a,b\n2,c,d\n"))
    assert doubtful is not None
    with pytest.raises(InputError, match=r"data\.text=0 data\.pair=1"):
        list(doubtful(MalformedRows()))
