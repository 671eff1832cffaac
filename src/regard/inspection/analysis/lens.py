"""What a model would say after each block (logit lens), and how a loaded model reads a text for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.analysis.attribution import SCORES
from regard.inspection.analysis.encoder_scores import MaskProbability, Scored
from regard.inspection.analysis.residual_stream import Stream
from regard.inspection.words import shown_tokens
from regard.layers import Tokens
from regard.rendering import Fitted
from regard.tasks import Predictor

if TYPE_CHECKING:
    from rich.table import Table

EMBEDDING = "embedding"
"""The address of the stream before the first block."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Read:
    """A model reading one text, and what its tokens are called.

    Arguments:
        module: the model.
        run: runs it once.
        tokens: those of the stack that gives logits, in their order.
        shown: of token ids, their texts.
        find: of a token's text, its id; None where there is none.
    """

    module: nn.Module
    run: Callable[[], Any]
    tokens: tuple[str, ...]
    shown: Callable[[Sequence[int]], Sequence[str]]
    find: Callable[[str], int | None]

    @classmethod
    def of(cls, model: Predictor[Any], text: str, target: str | None = None) -> Self:
        """A loaded model reading a text; a decoder with a source reads `target`, or what it writes itself, by teacher forcing.

        Raises:
            InputError: for a task whose model gives no logits over a vocabulary, and as its score of `attribute`.
        """
        masked = SCORES.get(model.task.name) is MaskProbability
        kind: Any = SCORES.get(model.task.name)
        names = getattr(kind, "__dataclass_fields__", {})
        if not masked and "source" not in names and set(names) != {"text", "token"}:
            raise InputError(
                f"a model for {model.task.name} gives no logits over a vocabulary; take a language model, a translator or a "
                "masked language model"
            )
        if target is not None and "source" not in names:
            raise InputError("target is for models that write a text for a text; this one reads one text, leave it out")
        question = kind(source=text, target=target) if "source" in names else kind(text=text)
        scored: Scored = question.of(model)
        device = model.device
        read = [
            Tokens(
                torch.tensor([part.ids], device=device), torch.ones(1, len(part.ids), dtype=torch.bool, device=device)
            )
            for part in scored.read
        ]
        sides = getattr(model.task, "sides", None)
        tokenizer = sides[1] if sides is not None else model.task.tokenizer
        return cls(
            module=scored.module,
            run=lambda: scored.score(read),
            tokens=tuple(scored.read[-1].texts),
            shown=tokenizer.tokens,
            find=tokenizer.find,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LogitLens:
    """What the model would say after each block (nostalgebraist 2020, "interpreting GPT: the logit lens").

        p_n = softmax(output(norm(x_n))),   x_n the residual stream after block n, x_0 what the first block reads

    The norm and the output are the model's last ones, with a masked encoder's prediction head between them. Of a post-norm stack
    the stream is taken after the block's norm, and there is no last one. What the model itself says is the last row.

    Arguments:
        addresses: N + 1 of them, `embedding` and the blocks.
        tokens: L strings, those read.
        ids: (N + 1, L, K) int64, the K most probable tokens, most probable first.
        probabilities: (N + 1, L, K) float32, theirs.
        predicted: (L,) int64, the most probable token of the last row.
        rank: (N + 1, L) int64, the rank of that token, 0 = most probable; tokens that are exactly as probable do not count.
        predicted_probability: (N + 1, L) float32, its probability.
        entropy: (N + 1, L) float32, -sum p ln p over the vocabulary, in nats.
        texts: of each id that occurs, its token.
    """

    addresses: tuple[str, ...]
    tokens: tuple[str, ...]
    ids: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray
    rank: np.ndarray
    predicted_probability: np.ndarray
    entropy: np.ndarray
    texts: dict[int, str]

    @classmethod
    def of_run(
        cls,
        module: nn.Module,
        run: Callable[[], Any],
        *,
        row: int = 0,
        top: int = 5,
        tokens: Sequence[str] | None = None,
        shown: Callable[[Sequence[int]], Sequence[str]] | None = None,
    ) -> Self:
        """From one pass of a model.

        Arguments:
            module: a decoder, an encoder-decoder of attention blocks, or an encoder with a head over the vocabulary, in
                evaluation mode; weights of 8 or 4 bits too.
            run: calls it once, on whole texts.
            row: which batch row; padding in it is shown like tokens.
            top: K.
            tokens: of this row; numbers where None.
            shown: of ids, their tokens; numbers where None.

        Raises:
            InputError: for a model without such a stream, in training mode, or a row or `top` that is not there.

        >>> from regard.models import GPT2, GPT2Config
        >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
        >>> model = GPT2(GPT2Config(vocabulary=9, **sizes)).eval()
        >>> lens = LogitLens.of_run(model, lambda: model(Tokens.pad([[0, 4, 5]])), top=3)
        >>> lens.addresses, lens.ids.shape, lens.rank[-1].tolist()
        (('embedding', 'layers.0', 'layers.1'), (3, 3, 3), [0, 0, 0])
        """
        stream = Stream.of(module, run)
        ending = stream.ending
        rows, length, _ = stream.entered.shape
        if not 0 <= row < rows:
            raise InputError(f"row {row} of {rows}; count from 0")
        texts = tuple(map(str, range(length))) if tokens is None else tuple(tokens)
        if len(texts) != length:
            raise InputError(f"{len(texts)} tokens are given for {length} positions; give one for each")
        states = {EMBEDDING: stream.entered, **stream.after}
        with torch.no_grad():
            last = ending.logits(ending.norm(states[list(states)[-1]][row]))
            if not 0 < top <= last.shape[-1]:
                raise InputError(f"top is {top}; give a number from 1 to {last.shape[-1]}, the size of the vocabulary")
            predicted = last.argmax(dim=-1, keepdim=True)
            found = [_said(ending.logits(ending.norm(state[row])), predicted, top) for state in states.values()]
        stacked = (np.stack([each.cpu().numpy() for each in part]) for part in zip(*found, strict=True))
        ids, probabilities, rank, of_predicted, entropy = stacked
        numbers = sorted({int(each) for each in ids.flat} | {int(each) for each in predicted.flatten()})
        names = list(map(str, numbers)) if shown is None else list(shown(numbers))
        return cls(
            addresses=tuple(states),
            tokens=texts,
            ids=ids,
            probabilities=probabilities,
            predicted=predicted[:, 0].cpu().numpy(),
            rank=rank,
            predicted_probability=of_predicted,
            entropy=entropy,
            texts=dict(zip(numbers, names, strict=True)),
        )

    @classmethod
    def of(cls, model: Predictor[Any], text: str, *, target: str | None = None, top: int = 5) -> Self:
        """A loaded model reading a text.

        Arguments:
            model: a language model, one that writes a text for a text, or a masked language model.
            text: what it reads; with a mask in it for a masked language model.
            target: what a decoder with a source reads; what it writes itself where None.
            top: K.

        Raises:
            InputError: as `of_run`, and where the model cannot read this.
        """
        read = Read.of(model, text, target)
        return cls.of_run(read.module, read.run, top=top, tokens=read.tokens, shown=read.shown)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values: `layers` has a list for each address, with an entry for each token."""
        layers = [
            [
                {
                    "top": [
                        {"token": self.texts[int(index)], "id": int(index), "probability": float(share)}
                        for index, share in zip(self.ids[n, place], self.probabilities[n, place], strict=True)
                    ],
                    "rank": int(self.rank[n, place]),
                    "probability": float(self.predicted_probability[n, place]),
                    "entropy": float(self.entropy[n, place]),
                }
                for place in range(len(self.tokens))
            ]
            for n in range(len(self.addresses))
        ]
        return {
            "format_version": 1,
            "addresses": list(self.addresses),
            "tokens": list(self.tokens),
            "predicted": [self.texts[int(each)] for each in self.predicted],
            "layers": layers,
        }

    def table(self) -> Table:
        """A row for each layer from the last down, a column for each token: the most probable token and its probability."""
        from rich.table import Table
        from rich.text import Text

        table = Table(
            header_style="bold", caption="most probable token, its probability in per cent", caption_justify="left"
        )
        table.add_column("after")
        for token in shown_tokens(self.tokens):
            table.add_column(Text(token))
        for n in reversed(range(len(self.addresses))):
            names = shown_tokens([self.texts[int(each)] for each in self.ids[n, :, 0]])
            cells = [
                Text(f"{name} {100 * share:.0f}")
                for name, share in zip(names, self.probabilities[n, :, 0], strict=True)
            ]
            table.add_row(self.addresses[n], *cells)
        return table

    def __rich__(self) -> Fitted:
        """The table, for `rich.print`."""
        return Fitted(self.table())


def _said(logits: Tensor, predicted: Tensor, top: int) -> tuple[Tensor, ...]:
    """Of logits (L, V): the most probable ids and their shares (L, K), rank, share of `predicted` (L, 1), and entropy (L,)."""
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    shares = logs.exp()
    best = shares.topk(top, dim=-1)
    of_predicted = logs.gather(-1, predicted)
    rank = (logs > of_predicted).sum(dim=-1)
    entropy = -(shares * logs).where(shares > 0, 0.0).sum(dim=-1)
    return best.indices, best.values.float(), rank, of_predicted[:, 0].exp().float(), entropy.float()
