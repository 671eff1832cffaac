"""Embeddings of tokens, and output layers from vectors to logits over the vocabulary.

Token embeddings are looked up, with positions added, or computed from the characters of words (Kim et al. 2016). At the end are
the output layers and the checks that a model's outputs are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.blocks import Dropout
from regard.layers.tokens import Tokens


class PositionedEmbedding(nn.Module):
    """Token vectors, scaled, plus position vectors, then dropout (Vaswani et al. 2017, sections 3.4 and 3.5).

        x = norm(sqrt(D) * E[token] + P[position])

    Arguments:
        tokens: the embedding table E, which source, target and output may share.
        positions: P, a module from positions (B, L) to (B, L, D).
        dropout: probability of dropping an entry in training.
        scale: the factor of the token vectors; None for sqrt(D). GPT uses 1.
        norm: applied to the sum, before dropout (BART); None for no norm.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: nn.Module,
        *,
        dropout: float = 0.0,
        scale: float | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale is None else scale

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, L) ids and (B, L) positions to (B, L, D)."""
        vectors = self.tokens(ids)
        scaled = vectors if self.scale == 1 else vectors * self.scale
        return self.dropout(self.norm(scaled + self.positions(positions)))


def token_embedding(vocabulary: int, width: int, *, padding: int | None = None) -> nn.Embedding:
    """An embedding table with entries of standard deviation D^-1/2, so that they have variance 1 when scaled by sqrt(D).

    Arguments:
        vocabulary: the number of rows.
        width: D.
        padding: the index of a row that is zero and gets no gradient from lookups; None for none.
    """
    table = nn.Embedding(vocabulary, width, padding_idx=padding)
    nn.init.normal_(table.weight, std=width**-0.5)
    if padding is not None:
        with torch.no_grad():
            table.weight[padding].zero_()
    return table


BYTES = 256
MARK = 0x20
"""The byte before each word, a space; it does not occur inside words."""

BEGIN, END, BLANK = 258, 259, 260
"""The ids of the begin and the end of a word, and of padding after it; 0 to 255 are bytes, 256 and 257 begin and end a text."""

SYMBOLS = 261
"""The number of character ids."""


class SpeltWords(NamedTuple):
    """The words of a batch of texts, as sequences of character ids.

    Arguments:
        letters: (U, C) int64 in [0, SYMBOLS), the characters of the U different words.
        which: (B, W) int64, the row in `letters` of each word of each text; without meaning at padding.
        valid: (B, W) bool, True = a word; padding is on the right.
        word_of: (B, L) int64, the index of each token's word in its text; 0 at padding before the first word.
        begins: (B, L) bool, True = the first token of a word.
    """

    letters: Tensor
    which: Tensor
    valid: Tensor
    word_of: Tensor
    begins: Tensor

    def to_tokens(self, words: Tensor) -> Tensor:
        """Copy the vector of each word, (B, W, D), to all of its tokens: (B, L, D)."""
        return words.gather(1, self.word_of.unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def spelt_words(tokens: Tokens, characters: int) -> SpeltWords:
    """Split texts of byte tokens (see `regard.text.bpe`) into words.

    A word begins at a mark, after a special token, and at the beginning of a text; each special token is a word. The characters
    of a word are (as in the code of Peters et al. 2018)

        BEGIN byte ... byte END BLANK ... BLANK

    Words longer than `characters` - 2 bytes are truncated.

    Arguments:
        tokens: (B, L) byte tokens.
        characters: C, the number of character ids per word.

    >>> words = spelt_words(Tokens.pad([[256, 32, 72, 105, 257]]), characters=5)
    >>> words.letters[words.which[0]].tolist()
    [[258, 256, 259, 260, 260], [258, 72, 105, 259, 260], [258, 257, 259, 260, 260]]
    """
    ids, valid = tokens.ids, tokens.valid
    rows, length = ids.shape
    if not ids.numel():
        none = ids.new_zeros(rows, 0)
        return SpeltWords(ids.new_zeros(0, characters), none, none.bool(), ids, valid)
    special = valid & (ids >= BYTES)
    first = valid & (valid.cumsum(dim=1) == 1)
    begins = valid & (special | (ids == MARK) | first | F.pad(special, (1, -1)))
    word_of = (begins.cumsum(dim=1) - 1).clamp_min(0)
    count = int(begins.sum(dim=1).max())
    flat = word_of + count * torch.arange(rows, device=ids.device).unsqueeze(1)
    places = torch.arange(length, device=ids.device).expand(rows, length)
    start = places.where(begins, 0).cummax(dim=1).values
    marked = ids.gather(1, start) == MARK
    place = places - start + (~marked).long()  # BEGIN replaces the mark
    kept = valid & (place > 0) & (place <= characters - 2)
    letters = ids.new_full((rows * count, characters), BLANK)
    letters[:, :1] = BEGIN
    letters[flat[kept], place[kept]] = ids[kept]
    ends = (
        ids.new_zeros(rows * count).scatter_reduce(0, flat[valid], place[valid], "amax").clamp_max(characters - 2) + 1
    )
    letters.scatter_(1, ends.unsqueeze(1), END)
    real = torch.arange(count, device=ids.device) < begins.sum(dim=1, keepdim=True)
    different, rank = torch.unique(letters[real.flatten()], dim=0, return_inverse=True)
    which = ids.new_zeros(rows, count).masked_scatter(real, rank)
    return SpeltWords(different, which, real, word_of, begins)


AT_ONCE = 1024
"""The number of words whose convolutions are computed at a time."""


class Highway(nn.Module):
    """A highway layer, whose gate mixes a transformation of the input with the input (Srivastava et al. 2015).

        g = sigmoid(Wg x + bg),   y = g * f(W x + b) + (1 - g) * x

    Arguments:
        width: the width of x and y.
        activation: f.
    """

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)
        self.activation = activation
        for part in (self.gate, self.transform):
            nn.init.normal_(part.weight, std=width**-0.5)
        nn.init.constant_(self.gate.bias, -2.0)  # at first, the output is mostly the input
        nn.init.zeros_(self.transform.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to (..., width)."""
        gate = torch.sigmoid(self.gate(x))
        return gate * self.activation(self.transform(x)) + (1 - gate) * x


class CharacterEncoder(nn.Module):
    """A character CNN: one vector for each word (Peters et al. 2018, section 3.1, after Kim et al. 2016).

        c_w = max over positions t of f(K_w * [e_t .. e_{t+w-1}] + b_w)       for each width w of the filters
        x = P highway(... highway([c_1 ; c_2 ; ...])) + p

    Blanks are included in the convolutions, as in the authors' code, so a word's vector depends on C, the length of its row.

    Arguments:
        width: the width of x.
        character_width: the width of the character embeddings e.
        filters: (w, number of filters) for each filter width w, which is at most C.
        highways: the number of highway layers.
        activation: f.

    >>> CharacterEncoder(6, character_width=4, filters=((1, 3), (2, 5)), highways=1)(torch.zeros(2, 7, dtype=torch.int64)).shape
    torch.Size([2, 6])
    """

    def __init__(
        self,
        width: int,
        *,
        character_width: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        total = sum(count for _, count in filters)
        self.characters = nn.Embedding(SYMBOLS, character_width)
        convolutions = [nn.Conv1d(character_width, count, size) for size, count in filters]
        self.convolutions = nn.ModuleList(convolutions)
        self.highways = nn.ModuleList(Highway(total, activation) for _ in range(highways))
        self.projection = nn.Linear(total, width)
        self.activation = activation
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        for convolution in convolutions:
            nn.init.normal_(convolution.weight, std=math.sqrt(1 / convolution.weight[0].numel()))
            if convolution.bias is not None:
                nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=total**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, letters: Tensor) -> Tensor:
        """Word embeddings (U, width) of character ids (U, C), int64."""
        if len(letters) <= AT_ONCE:
            return self._vectors(letters)
        return torch.cat([self._vectors(part) for part in letters.split(AT_ONCE)])

    def _vectors(self, letters: Tensor) -> Tensor:
        embedded = self.characters(letters).transpose(1, 2)
        x = torch.cat([self.activation(each(embedded).amax(dim=-1)) for each in self.convolutions], dim=-1)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)


OutputBias = Literal["padding", "trained", "none"]

Reduction = Callable[[Tensor, Tensor, Tensor | None], Any]
"""A function of h (..., D), W (V, D) and b (V,) or None that is called instead of computing the logits W h + b."""

NEVER = -1e4
"""The logit of an excluded token: its probability is exactly 0, and the number is in the range of float16."""


class VocabularyOutput(nn.Linear):
    """Logits of every token, with the padding token optionally excluded.

        logits = W x + b

    With `bias="padding"` b is constant: `NEVER` at the padding token, 0 elsewhere. The probability of the padding token is then
    exactly 0, and so is the gradient of its row of W, which is initialised to zero and never changes: with any optimiser, tied to
    an embedding or not, on one worker or sharded.

    Arguments:
        width: D.
        vocabulary: V.
        bias: `padding`, `trained` (one number per token), or `none`.
        padding: the id of the padding token, if `bias` is `padding`.

    >>> output = VocabularyOutput(4, 3, bias="padding", padding=2)
    >>> output(torch.ones(1, 4)).softmax(dim=-1)[0, 2].item()
    0.0
    """

    ruled_out: Tensor | None

    def __init__(self, width: int, vocabulary: int, *, bias: OutputBias = "none", padding: int | None = None) -> None:
        self.padding = padding if bias == "padding" else None
        super().__init__(width, vocabulary, bias=bias == "trained")
        self.register_buffer("ruled_out", None if self.padding is None else self._constant(), persistent=False)

    def _constant(self) -> Tensor:
        constant = torch.zeros(self.out_features, device=self.weight.device, dtype=self.weight.dtype)
        constant[self.padding] = NEVER
        return constant

    def reset_parameters(self) -> None:
        """Initialise W Glorot-uniformly, with a zero row for an excluded token, and a trained bias with zeros."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.padding is not None:
            with torch.no_grad():
                self.weight[self.padding].zero_()
        if getattr(self, "ruled_out", None) is not None:  # the module was created on the meta device
            self.ruled_out = self._constant()

    def forward(self, input: Tensor) -> Tensor:
        """(..., D) to (..., V)."""
        return F.linear(input, self.weight, self.bias if self.ruled_out is None else self.ruled_out)


def maxout(x: Tensor) -> Tensor:
    """The maximum of each pair of adjacent channels: (..., 2l) to (..., l) (Bahdanau et al. 2015, appendix A.1.2).

        t_i = max(t~_{2i-1}, t~_{2i})

    >>> maxout(torch.tensor([1.0, 5.0, -2.0, -3.0])).tolist()
    [5.0, -2.0]
    """
    return x.unflatten(-1, (-1, 2)).amax(dim=-1)


class NotFinite(InputError):
    """A model's output contains NaN or infinity, so it cannot be used."""


def check_finite(values: Tensor, what: str, *, where: Tensor | None = None) -> Tensor:
    """Check that a model's output is usable, and return it.

    Arguments:
        values: (..., N), logits or vectors. Single entries may be minus infinity, for excluded tokens.
        what: what the values are of, for the message.
        where: (...) bool, True = the row is checked; None = all.

    Raises:
        NotFinite: if a checked row has NaN or plus infinity, or only minus infinity.

    >>> import torch
    >>> check_finite(torch.tensor([[1.0, -torch.inf]]), "classes").tolist()
    [[1.0, -inf]]
    """
    if values.numel() and values.device.type != "meta":
        fine = values.amax(dim=-1).isfinite()
        if not bool((fine if where is None else fine | ~where).all()):
            raise not_finite(what)
    return values


def check_number(value: float, what: str) -> float:
    """Check that a number is finite, and return it.

    Raises:
        NotFinite: for NaN or infinity.
    """
    if not math.isfinite(value):
        raise not_finite(what)
    return value


def not_finite(what: str) -> NotFinite:
    """The error for a model whose output for `what` contains NaN or infinity."""
    return NotFinite(
        f"the model's numbers for {what} are not finite; its weights overflow or contain NaN: load it in float32, or use an "
        "earlier checkpoint"
    )
