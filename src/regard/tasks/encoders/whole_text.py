"""What the tasks share in which a model says one thing of each input: for encoders, and for decoders that are fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Encoded, Tokens
from regard.tasks.encoders.inputs import SECOND, TEXT
from regard.tasks.encoders.task import EncoderTask
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.task import LossSum
from regard.text import Tokenizer

NEXT_TOKEN = "next_token"
"""The auxiliary loss, beside the task's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTextTask(EncoderTask):
    """What turns texts into tensors, and one output for each into a loss, perhaps with a language model's beside it.

        loss = mean over inputs of the task's + auxiliary * mean over tokens of - log p(x_t | x_1 .. x_{t-1})

    (Radford et al. 2018, equation 5.) Told are the tokens of the texts: not what stands between them and around, and no padding.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of one input, special ones included; what is longer is cut.
        auxiliary: the weight of the language model's loss, lambda; 0 for none.
    """

    auxiliary: float = 0.0

    def beside(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The tokens of the texts of each example, in all of its readings, where a language model's loss is beside the task's."""
        if not self.auxiliary:
            return {}
        special = [int((np.asarray(data.sequence(SECOND, row)) > 0).sum()) for row in range(len(data))]
        inputs = data.lengths(SECOND)
        return {NEXT_TOKEN: self.readings * (data.lengths(TEXT) - 2 * inputs - np.array(special, dtype=np.int64))}

    def read(self, model: nn.Module, tokens: Tokens, segments: Tensor) -> tuple[Encoded, dict[str, LossSum]]:
        """What the model makes of a batch, and the losses beside the task's."""
        if not self.auxiliary:
            return model(tokens, segments, readings=self.readings), {}
        at, labels = next_tokens(tokens, self.tokenizer)
        encoded = model(tokens, segments, at=at, readings=self.readings)
        total, correct = smoothed_cross_entropy(encoded.next_token, labels)
        return encoded, {NEXT_TOKEN: LossSum(self.auxiliary * total, len(labels), correct)}

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse inputs that are longer than the model has positions for, and an auxiliary loss where no next token is told.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        if self.auxiliary and not model.tells_next:
            raise InputError(
                f"data.auxiliary is {self.auxiliary:g}, and a {model.config.model_type} reads both ways and tells no next token; "
                "leave it out, or start from a decoder such as gpt2"
            )

    def metrics_beside(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Loss and accuracy of next tokens, without their weight."""
        return {f"{name}_loss": loss / self.auxiliary, f"{name}_accuracy": right}


def next_tokens(tokens: Tokens, tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """The tokens of the texts, (M,) int64, and the place before each, (M,) int64 as indices into B x L.

    What starts, parts and ends an input is none of its texts.
    """
    around = torch.tensor(
        sorted({tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id}), device=tokens.ids.device
    )
    text = tokens.valid & ~torch.isin(tokens.ids, around)
    places = text.flatten().nonzero().squeeze(1)
    return places - 1, tokens.ids.flatten()[places]
