"""People as judges of vectors: a page to ask them with, and what their answers say (Schnabel et al. 2015)."""

from regard.word_embeddings.judging.questionnaire import (
    Answer,
    Item,
    Questionnaire,
    html_page,
    make_questionnaire,
    read_answers,
    read_key,
)
from regard.word_embeddings.judging.scores import Judgement, judge

__all__ = [
    "Answer",
    "Item",
    "Judgement",
    "Questionnaire",
    "html_page",
    "judge",
    "make_questionnaire",
    "read_answers",
    "read_key",
]
