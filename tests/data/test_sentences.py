"""Sentences by rules: what ends one, what does not, nothing lost, no text that takes for ever."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.running_text import split_sentences


@pytest.mark.parametrize(
    "text",
    [
        "It rains. | He stays. | Why? | No! | Well … | She knows.",
        "“No,” he said. | “Why?” | (He left.) | [Sic.] | 'Yes.' | 3 men stayed. | É. Zola wrote.",
        "Dr. Smith and Mrs. Jones met Prof. Lee on Jan. 3 at No. 10. | They left.",
        "J. S. Bach wrote it. | A. muscaria did not.",
        "It cost $3.50 or 1.000,00 Euro. | So what?",
        "He works at Apple Inc. | He likes it.",
        "He works for Apple Inc. in York. | The U.S. Army came from the U.S. | It left.",
        "We met at 5 p.m. | The sun set.",
        "1. Introduction to it. | 2 is next.",
        "in 1999. | Then came 2000. | And more.",
        "So do I. | He knew. | What?! | Really...",
        "wait... what? no.",
        "e.g. this, i.e. that, cf. fig. 3 and eq. 4.",
        "它来了。|她走了！|真的？|是。",
        "the first line",
    ],
)
def test_where_sentences_end(text):
    sentences = [part.strip() for part in text.split("|")]
    assert split_sentences(("" if "。" in text else " ").join(sentences)) == sentences


def test_no_text_gives_no_sentence():
    assert split_sentences("") == split_sentences(" \n\t ") == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="aA.!? \n\"')(1。é", max_size=60))
def test_nothing_but_white_space_is_lost(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@pytest.mark.parametrize("unit", [".", ". ", "Mr. ", "A. ", "1. ", "?!", "。", '."', "a", " ", ".\n\n"])
def test_long_lines_of_one_kind_take_no_longer(unit):
    began = time.process_time()
    split_sentences(unit * (200_000 // len(unit)) + " End.")
    assert time.process_time() - began < 2
