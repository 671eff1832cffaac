"""One answer of a search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A target sequence that a search found, with what the model thinks of it.

    Of k calls of `decoder.step`, each emits one token, so `len(token_log_probabilities) == len(rows) == k`:
    this is |Y|, and it counts the end token where there is one.

    Arguments:
        tokens: the ids, without start and end token; a stop sequence is kept.
        finished: True = ended by the end token or a stop rule, False = cut at the maximum length.
        log_probability: sum of `token_log_probabilities` in natural-log units, accumulated in float32.
        score: what hypotheses are compared by: log-probability / length penalty + coverage penalty.
        token_log_probabilities: of each emitted token, the end token included; the model's own, before any
            transform.
        rows: `rows[t]` is the batch row this hypothesis occupied in call t of `decoder.step` of its search;
            call 0 consumes the start token. Following it through a record of all calls gives this
            hypothesis's record.

    >>> Hypothesis(tokens=(5,), finished=True, log_probability=-3.0, score=-1.5,
    ...            token_log_probabilities=(-1.0, -2.0), rows=(0, 3)).length
    2
    """

    tokens: tuple[int, ...]
    finished: bool
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    rows: tuple[int, ...]

    @property
    def length(self) -> int:
        """|Y|, emitted tokens with the end token among them."""
        return len(self.token_log_probabilities)
