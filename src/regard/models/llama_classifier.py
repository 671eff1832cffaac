"""A decoder of the Llama type with a head on the last token, for fine-tuning on classes or numbers of whole texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.attention import NoPositions
from regard.layers import CausalClassifier, PooledHead, PositionedEmbedding
from regard.models.gpt import initialise_causal
from regard.models.gpt_classifiers import Headed
from regard.models.llama import LlamaConfig, blocks_of, windows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaClassifierConfig(Headed, LlamaConfig):
    """The sizes of a Llama with a head.

    It has the arguments of `LlamaConfig`, and these:

    Arguments:
        head: the output for a text: `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.
        head_dropout: before the head.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "llama_classifier"

    def __post_init__(self) -> None:
        LlamaConfig.__post_init__(self)
        self.check_head()


class LlamaClassifier(CausalClassifier):
    """A Llama with a linear map of the last token's vector, without a bias, as in transformers.

    It has no output over the vocabulary: of a model with its own output table (`tied_output: false`) the table is dropped, so
    next tokens cannot be predicted.

    Arguments:
        config: its sizes.

    >>> from regard.layers import Tokens
    >>> sizes = {"vocabulary": 9, "width": 8, "heads": 2, "feedforward_width": 16, "layers": 2, "maximum_positions": 6}
    >>> LlamaClassifier(LlamaClassifierConfig(outputs=3, **sizes))(Tokens.pad([[0, 4, 5], [0, 7]])).logits.shape
    torch.Size([2, 3])
    """

    config: LlamaClassifierConfig

    def __init__(self, config: LlamaClassifierConfig) -> None:
        super().__init__(
            config,
            embedding=PositionedEmbedding(
                nn.Embedding(config.vocabulary, config.width),
                NoPositions(config.width, config.maximum_positions),
                dropout=config.dropout,
                scale=1.0,
            ),
            layers=blocks_of(config),
            norm=nn.RMSNorm(config.width, eps=config.norm_epsilon),
            head=PooledHead(config.width, config.outputs, dropout=config.head_dropout, bias=False),
            sliding_windows=windows_of(config),
        )
        self.tells_next = config.tied_output
        initialise_causal(self, config, scaled_residuals=False)
