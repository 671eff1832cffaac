"""A questionnaire as one HTML page that needs nothing beside itself."""

from __future__ import annotations

from regard.vectors.judging.questionnaire import Questionnaire
from regard.web import page


def html_page(questionnaire: Questionnaire) -> str:
    """The page that asks people: one question at a time, answered with the pointer or the number keys.

    One file without any link to another; the browser is told so by a content security policy. It does not hold which word is of
    which table, keeps answers in the browser, and saves them as JSONL.

    >>> from regard.vectors.judging.questionnaire import Item
    >>> owners = (("x",), ("y",))
    >>> item = Item(name="1a", kind="neighbour", query="</script>", options=("b", "c"), owners=owners, tables=("x", "y"))
    >>> page = html_page(Questionnaire(tables=("x", "y"), items=(item,), seed=0))
    >>> page.count("</script>"), "u003c/script" in page
    (2, True)
    """
    parts = {"title": "Words and their neighbours", "count": f"{len(questionnaire.items):,}"}
    return page("questionnaire", parts, data=questionnaire.shown(), styles=("questionnaire.css",))
