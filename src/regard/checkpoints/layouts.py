"""The layouts of other libraries that models are told in: `LAYOUTS` names every one, and a layout joins by standing in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.checkpoints import bert, gpt, marian, reformer, t5, vit


class Layout(Protocol):
    """What another library's layout of some families has to say; a module with these functions is one."""

    def obstacle(self, config: Any, /) -> str:
        """Why a model cannot be told in it, as half a sentence; empty where it can."""
        ...

    def family_of(self, config: Any, /) -> str:
        """What that library calls a model of this config: the `model_type` of its config.json."""
        ...

    def config_to_theirs(self, config: Any, dtype: torch.dtype, /) -> dict[str, Any]:
        """The content of their config.json."""
        ...

    def unsaid(self, config: Any, /) -> dict[str, Any]:
        """What `config_to_theirs` could not say, for regard.json."""
        ...

    def config_to_ours(
        self, values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str, /
    ) -> Any:
        """Our config from their config.json.

        Arguments:
            values: those of config.json; under `preprocessor` those of preprocessor_config.json, where there is one.
            said: what regard.json keeps beside it; None for a folder made elsewhere.
            tensors: those of the file: their names and shapes say what config.json may not.
            where: what messages call config.json.
        """
        ...

    def tensors_to_theirs(self, config: Any, tensors: Mapping[str, Tensor], /) -> dict[str, Tensor]:
        """Our parameters under their names, and whatever constants their file holds."""
        ...

    def tensors_to_ours(self, config: Any, tensors: Mapping[str, Tensor], where: str, /) -> dict[str, Tensor]:
        """Their tensors under our names."""
        ...


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "marian": marian,
        "pegasus": marian,
        "bert": bert,
        "distilbert": bert,
        "openai-gpt": gpt,
        "gpt2": gpt,
        "reformer": reformer,
        "t5": t5,
        "mt5": t5,
        "vit": vit,
    },
)
"""By the `model_type` of their config.json."""

OF_FAMILY: Mapping[str, Layout] = MappingProxyType(
    {
        "transformer": marian,
        "bert": bert,
        "distilbert": bert,
        "gpt": gpt,
        "gpt2": gpt,
        "gpt3": gpt,
        "t5": t5,
        "vit": vit,
        "reformer": reformer,
    }
)
"""By our own families; one that is not here is in no other library."""


def obstacle(config: Any) -> str:
    """Why no other library's layout can tell a model, as half a sentence; empty where one can."""
    layout = OF_FAMILY.get(config.model_type)
    return f"no other library has the family {config.model_type}" if layout is None else layout.obstacle(config)
