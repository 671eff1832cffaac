"""ModernBERT: an encoder for long texts with the parts of today's decoders (Warner et al. 2024).

Differences from BERT: rotary positions in each block (Su et al. 2021), local attention in most blocks (Beltagy et al. 2020),
gated feed-forward networks (Shazeer 2020), pre-norm blocks, and no biases in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, NoPositions, Rotary
from regard.errors import InputError
from regard.layers import (
    ACTIVATIONS,
    POOLED,
    Activation,
    EncoderBlock,
    GatedFeedForward,
    HeadKind,
    Residual,
    TextEmbedding,
    TextEncoder,
)
from regard.layers.blocks import Dropout
from regard.layers.heads import HeadLogits, MaskedHead, NoHead
from regard.models.config import check, check_outputs, check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class ModernBertConfig:
    """The sizes and the head of a ModernBERT. The defaults are those of the base model.

    Arguments:
        vocabulary: V, number of tokens; the tokenizer's have ids below.
        width: D, of the model.
        heads: H; divides the width, into heads of an even width.
        feedforward_width: F, inside the gated feed-forward networks.
        layers: number of blocks.
        maximum_positions: the longest text, in tokens.
        global_every: one block in this many has global attention, from the first on; the others have local attention.
        global_layers: the blocks with global attention, counted from 0, if they are not evenly spaced.
        window: the window of local attention in tokens, half of them on either side.
        rotary_base: of the rotary frequencies, base^(-2k / E), in global blocks.
        local_rotary_base: the same in local blocks.
        attention_bias: whether the four projections of attention have biases.
        feedforward_bias: whether the linear maps of the feed-forward networks have biases.
        norm_bias: whether layer norms have biases.
        head_bias: whether the linear map before the output layer has a bias, in every head.
        output_bias: whether the output layer of the masked head has a bias.
        tied_output: whether the output layer of the masked head shares the embedding table.
        activation: of the gates.
        head_activation: after the linear map before the output layer.
        pooling: the input of heads for whole texts: the vector of the first token (`cls`), or the mean of all (`mean`).
        embedding_dropout: probability of dropping an entry of the embeddings in training.
        attention_dropout: of attention weights and of the attention's output.
        feedforward_dropout: of the hidden units of the feed-forward networks.
        head_dropout: before the output of the task head.
        norm_epsilon: added to the variance in layer norms.
        init_std: standard deviation of the initial matrices; for the last map of each sub-layer it is divided by sqrt(2 layers).
        init_cutoff: the number of standard deviations at which the normal distribution is truncated.
        padding_id: the id that fills padding.
        head: the output for a text: `none`, `masked`, `sequence`, `tokens`, `spans` or `choice`. Filled in by the
            task.
        outputs: the number of outputs of the heads `sequence` and `tokens`. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.

    >>> ModernBertConfig(layers=7).local_layers
    (1, 2, 4, 5)
    """

    model_type: ClassVar[str] = "modernbert"

    vocabulary: int = 50_368
    width: int = 768
    heads: int = 12
    feedforward_width: int = 1152
    layers: int = 22
    maximum_positions: int = 8192
    global_every: int = 3
    global_layers: tuple[int, ...] | None = None
    window: int = 128
    rotary_base: float = 160_000.0
    local_rotary_base: float = 10_000.0
    attention_bias: bool = False
    feedforward_bias: bool = False
    norm_bias: bool = False
    head_bias: bool = False
    output_bias: bool = True
    tied_output: bool = True
    activation: Activation = "gelu"
    head_activation: Activation = "gelu"
    pooling: Literal["cls", "mean"] = "cls"
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    head_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    init_std: float = 0.02
    init_cutoff: float = 2.0
    padding_id: int = 0
    head: HeadKind = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        if self.head in ("next_sentence", "pretraining"):
            raise InputError(
                f"head is {self.head!r}, which ModernBERT has not: it was not trained on next sentences; choose 'masked', or a"
                " bert (in a recipe data.next_sentence=false, or model.name=bert)"
            )
        check_types(self)
        sizes = (
            "vocabulary",
            "width",
            "heads",
            "feedforward_width",
            "layers",
            "maximum_positions",
            "global_every",
            "window",
        )
        check_sizes(self, *sizes)
        width, heads = self.width, self.heads
        check(width % heads == 0, "heads", heads, f"a divisor of width {width}", "change one of the two")
        even = width // heads % 2 == 0
        check(
            even, "heads", heads, f"such that width {width} has heads of an even width", "rotary positions turn pairs"
        )
        for name in ("rotary_base", "local_rotary_base"):
            check(getattr(self, name) > 1, name, getattr(self, name), "above 1", "10000 is usual")
        check_shares(
            self, "embedding_dropout", "attention_dropout", "feedforward_dropout", "head_dropout", usual="0 is usual"
        )
        for name in ("norm_epsilon", "init_std", "init_cutoff"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0", "leave it out for the published one")
        check_tokens(self, "padding_id")
        check_outputs(self)
        if self.global_layers is None:
            return
        given = tuple(sorted(set(self.global_layers)))
        fits = all(0 <= layer < self.layers for layer in given)
        check(fits, "global_layers", given, f"blocks from 0 to {self.layers - 1}", "they count from 0")
        # One way to say each, so that a config is the same after it was written as another library's and read.
        regular = given == tuple(range(0, self.layers, self.global_every))
        object.__setattr__(self, "global_layers", None if regular else given)

    @property
    def segments(self) -> Literal[0]:
        """0: there are no segment embeddings."""
        return 0

    @property
    def local_layers(self) -> tuple[int, ...]:
        """The blocks with local attention."""
        others = range(0, self.layers, self.global_every) if self.global_layers is None else self.global_layers
        return tuple(layer for layer in range(self.layers) if layer not in others)

    @classmethod
    def base(cls) -> ModernBertConfig:
        """The base model: 149 million parameters."""
        return cls(padding_id=50_283)

    @classmethod
    def large(cls) -> ModernBertConfig:
        """The large model: 395 million parameters."""
        return cls(width=1024, heads=16, feedforward_width=2624, layers=28, padding_id=50_283)


class ModernBert(TextEncoder):
    """ModernBERT with the head of one task (Warner et al. 2024, section 2).

        x = norm(E[token])
        x = x + attention(norm(x));   x = x + W2 (GELU(Wg norm(x)) * W1 norm(x))         n times, without the first norm
        hidden = norm(x)
        head:  t = norm(GELU(W h)),   logits = V t + c,   h the vector of a token or of the whole text, V = E where tied

    Queries and keys have rotary positions. In local blocks a token sees tokens at most window/2 away.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"width": 8, "heads": 2, "feedforward_width": 6, "layers": 2, "maximum_positions": 9, "window": 2}
    >>> model = ModernBert(ModernBertConfig(vocabulary=9, head="masked", **sizes))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]])).logits.shape
    torch.Size([2, 3, 9])
    """

    config: ModernBertConfig

    def __init__(self, config: ModernBertConfig) -> None:
        tokens = nn.Embedding(config.vocabulary, config.width)
        super().__init__(
            config,
            embedding=TextEmbedding(
                tokens,
                NoPositions(config.width, config.maximum_positions),
                None,
                epsilon=config.norm_epsilon,
                dropout=config.embedding_dropout,
                norm_bias=config.norm_bias,
            ),
            layers=blocks_of(config),
            norm=norm_of(config),
            pooler=Pooling(config.pooling) if config.head in POOLED else None,
            head=head_of(config, tokens),
            windows=[config.window // 2 if layer in config.local_layers else None for layer in range(config.layers)],
        )
        initialise(self)


def blocks_of(config: ModernBertConfig) -> list[EncoderBlock]:
    """The blocks; those of one kind share a table of rotary positions."""
    each, local = config.width // config.heads, config.local_layers
    rotations = {
        base: Rotary(each, config.maximum_positions, base=base)
        for base in (config.rotary_base, config.local_rotary_base)
    }
    blocks = []
    for layer in range(config.layers):
        block = EncoderBlock(
            attention=MultiHeadAttention(
                config.width,
                config.heads,
                bias=config.attention_bias,
                dropout=config.attention_dropout,
                rotary=rotations[config.local_rotary_base if layer in local else config.rotary_base],
            ),
            feedforward=GatedFeedForward(
                config.width,
                config.feedforward_width,
                activation=ACTIVATIONS[config.activation],
                dropout=config.feedforward_dropout,
                bias=config.feedforward_bias,
            ),
            residual=lambda: Residual(before=norm_of(config), after=nn.Identity()),
        )
        block.attention_residual.dropout = Dropout(config.attention_dropout)
        if layer == 0:
            block.attention_residual.before = nn.Identity()  # the embedding is normalised
        blocks.append(block)
    return blocks


def norm_of(config: ModernBertConfig) -> nn.LayerNorm:
    """A layer norm, with a bias if the config has one."""
    return nn.LayerNorm(config.width, eps=config.norm_epsilon, bias=config.norm_bias)


class Pooling(nn.Module):
    """The vector of a text: that of its first token, or the mean over its tokens.

    Arguments:
        mode: `cls` or `mean`.
    """

    def __init__(self, mode: Literal["cls", "mean"]) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Hidden (B, L, D) and valid (B, L) to (B, D), with padding on either side."""
        if self.mode == "cls":
            return hidden[torch.arange(hidden.shape[0], device=hidden.device), valid.long().argmax(dim=1)]
        real = valid.unsqueeze(-1)
        return hidden.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1).clamp_min(1).to(hidden.dtype)

    def extra_repr(self) -> str:
        """The mode."""
        return self.mode


class TransformedHead(nn.Module):
    """Logits of every token, or of the whole text: a linear map and a norm as in every head, then the output layer of the task.

        t = LayerNorm(f(W h + b)),   logits = V D(t) + c,   D is dropout

    The names of its parameters are those of `MaskedHead`: the first map is pre-trained there.

    Arguments:
        config: D, f, and which parts have biases.
        outputs: the number of outputs.
        pooled: whether h is the vector of the whole text.
    """

    def __init__(self, config: ModernBertConfig, outputs: int, *, pooled: bool) -> None:
        super().__init__()
        self.transform = nn.Linear(config.width, config.width, bias=config.head_bias)
        self.activation: Callable[[Tensor], Tensor] = ACTIVATIONS[config.head_activation]
        self.norm = norm_of(config)
        self.dropout = Dropout(config.head_dropout)
        self.output = nn.Linear(config.width, outputs)
        self.pooled = pooled

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (B, L, outputs), or pooled (B, D) to (B, outputs)."""
        del at
        read = pooled if self.pooled else hidden
        if read is None:
            raise RuntimeError("this head reads the pooled vector and the model has none")
        return HeadLogits(self.output(self.dropout(self.norm(self.activation(self.transform(read))))))


def head_of(config: ModernBertConfig, tokens: nn.Embedding) -> nn.Module:
    """The head that the config names, with the model's embedding table."""
    if config.head == "none":
        return NoHead()
    if config.head == "masked":
        return MaskedHead(
            tokens,
            activation=ACTIVATIONS[config.head_activation],
            epsilon=config.norm_epsilon,
            bias=config.head_bias,
            norm_bias=config.norm_bias,
            output_bias=config.output_bias,
            tied=config.tied_output,
        )
    return TransformedHead(config, config.outputs, pooled=config.head in POOLED)


def initialise(model: ModernBert) -> None:
    """Sample all matrices from truncated normal distributions, as in the authors' code; biases are zero."""
    config = model.config
    narrow = config.init_std / math.sqrt(2 * config.layers)
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            continue
        std = narrow if name.endswith((".outer", "attention.output", "head.transform")) else config.init_std
        if name == "head.output":
            if config.head != "masked":
                std = config.width**-0.5
            elif config.tied_output:
                std = config.init_std  # the table, which is sampled again
            else:
                std = narrow
        cut = config.init_cutoff * std
        nn.init.trunc_normal_(module.weight, std=std, a=-cut, b=cut)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
