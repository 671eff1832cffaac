"""GPT, GPT-2 and GPT-3 with a head, as they are fine-tuned for tasks of whole texts (Radford et al. 2018, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from regard.layers import CausalClassifier, PooledHead
from regard.models.config import check_outputs, check_shares
from regard.models.gpt import (
    GPT2Config,
    GPT3Config,
    GPTConfig,
    bands_of,
    causal_blocks,
    causal_embedding,
    initialise_causal,
)
from regard.structure import renamed

Head = Literal["sequence", "choice"]
"""`sequence`: a class or a number of the whole text; `choice`: a score of a text, to compare with those of other texts."""


@dataclass(frozen=True, kw_only=True)
class Headed:
    """The settings that a head adds to the config of the body. It has no slots, so that it can be the first base class."""

    head: Head = "sequence"
    outputs: int = 2
    head_dropout: float = 0.1

    @property
    def segments(self) -> int:
        """0: there are no segment embeddings."""
        return 0

    def check_head(self) -> None:
        """Refuse a head that no such model can have.

        Raises:
            InputError: naming the field, its value and what is allowed.
        """
        check_shares(self, "head_dropout", usual="0.1 is usual")
        check_outputs(self)


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPTClassifierConfig(Headed, GPTConfig):
    """The sizes of a GPT with a head.

    It has the arguments of `GPTConfig`, and these:

    Arguments:
        head: the output for a text: `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.
        head_dropout: before the head, as published.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt_classifier"

    def __post_init__(self) -> None:
        GPTConfig.__post_init__(self)
        self.check_head()


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPT2ClassifierConfig(Headed, GPT2Config):
    """The sizes of a GPT-2 with a head.

    It has the arguments of `GPT2Config`, and these:

    Arguments:
        head, outputs, head_dropout: as in `GPTClassifierConfig`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt2_classifier"

    def __post_init__(self) -> None:
        GPT2Config.__post_init__(self)
        self.check_head()


@renamed(deviation="init_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class GPT3ClassifierConfig(Headed, GPT3Config):
    """The sizes of a GPT-3 with a head.

    It has the arguments of `GPT3Config`, and these:

    Arguments:
        head, outputs, head_dropout: as in `GPTClassifierConfig`.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gpt3_classifier"

    def __post_init__(self) -> None:
        GPT3Config.__post_init__(self)
        self.check_head()


class GPTClassifier(CausalClassifier):
    """GPT with a head on the last token.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> GPTClassifier(GPTClassifierConfig(outputs=3, **sizes))(Tokens.pad([[0, 4, 5], [0, 7]])).logits.shape
    torch.Size([2, 3])
    """

    config: GPTClassifierConfig

    def __init__(self, config: GPTClassifierConfig) -> None:
        super().__init__(
            config,
            embedding=causal_embedding(config),
            layers=causal_blocks(config, "post"),
            norm=nn.Identity(),
            head=_head_of(config),
        )
        initialise_causal(self, config, scaled_residuals=config.scaled_residuals)


class GPT2Classifier(CausalClassifier):
    """GPT-2 with a head on the last token.

    Arguments:
        config: its sizes.
    """

    config: GPT2ClassifierConfig

    def __init__(self, config: GPT2ClassifierConfig) -> None:
        super().__init__(
            config,
            embedding=causal_embedding(config),
            layers=causal_blocks(config, "pre"),
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
            head=_head_of(config),
        )
        initialise_causal(self, config, scaled_residuals=config.scaled_residuals)


class GPT3Classifier(CausalClassifier):
    """GPT-3 with a head on the last token.

    Arguments:
        config: its sizes.
    """

    config: GPT3ClassifierConfig

    def __init__(self, config: GPT3ClassifierConfig) -> None:
        super().__init__(
            config,
            embedding=causal_embedding(config),
            layers=causal_blocks(config, "pre"),
            norm=nn.LayerNorm(config.width, eps=config.norm_epsilon),
            head=_head_of(config),
            sliding_windows=bands_of(config),
        )
        initialise_causal(self, config, scaled_residuals=True)


def _head_of(config: GPTClassifierConfig | GPT2ClassifierConfig | GPT3ClassifierConfig) -> PooledHead:
    return PooledHead(config.width, config.outputs, dropout=config.head_dropout)
