"""The layouts of other libraries that models are told in: `LAYOUTS` names every one, and a layout joins by standing in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.checkpoints import bert, gpt, marian, reformer, t5, vit
from regard.errors import InputError


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

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bert": "BERT",
        "distilbert": "DistilBERT",
        "openai-gpt": "GPT",
        "gpt2": "GPT-2",
        "t5": "T5",
        "mt5": "mT5",
        "vit": "ViT",
    }
)
"""What people call a layout, where that is not its own name with a capital."""

CONVERTED = frozenset({"marian", "pegasus", "bert", "distilbert", "gpt2", "t5", "mt5"})
"""The layouts that CTranslate2's converter for transformers takes; a test compares them with its own list."""


def called(layout: str) -> str:
    """What people call a layout.

    >>> called("gpt2"), called("marian")
    ('GPT-2', 'Marian')
    """
    return NAMES.get(layout, layout.capitalize())


def readers(values: Mapping[str, Any]) -> dict[str, str]:
    """The other programs that a folder in another library's layout is for, and what each opens it as or with.

    Arguments:
        values: the content of its config.json, of which `model_type`, `architectures` and `pruned_heads` tell.

    >>> readers({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    {'transformers': 'GPT2LMHeadModel', 'CTranslate2': 'ct2-transformers-converter'}
    >>> readers({"model_type": "vit"})
    {'transformers': 'AutoModel'}
    """
    named = values.get("architectures")
    kind = str(named[0]) if isinstance(named, list) and named else "AutoModel"
    if values.get("pruned_heads"):
        return {"transformers": f"{kind} (up to version 4, for heads were pruned)"}
    found = {"transformers": kind}
    if values.get("model_type") in CONVERTED:
        bare = values["model_type"] in ("bert", "distilbert")
        found["CTranslate2"] = "ct2-transformers-converter" + (", without a head" if bare else "")
    return found


_DISTILBERT = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}
_GPT = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
}
_T5 = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
_MARIAN = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}

COMMON_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "distilbert": _DISTILBERT,
        "openai-gpt": _GPT,
        "gpt2": _GPT,
        "t5": _T5,
        "mt5": _T5,
        "marian": _MARIAN,
        "pegasus": _MARIAN,
    }
)
"""By `model_type`, what all models have in common under one name, and a family's own name for it."""


def in_own_names(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content of their config.json with every field under the family's own name.

    Arguments:
        where: what messages call config.json.

    Raises:
        InputError: for a field under both names with two values.
    """
    found = dict(values)
    for common, own in COMMON_NAMES.get(str(values.get("model_type")), {}).items():
        value = found.pop(common, None)
        if value is not None and found.setdefault(own, value) != value:
            raise InputError(
                f"{where}: {own} is {found[own]!r} and {common}, another name of it, {value!r}; make them one"
            )
    return found


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
