"""Names of an earlier release work with a warning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard.attention
import regard.generation
from regard.attention import (
    AttentionInputs,
    Causal,
    Declaration,
    KVBuffer,
    MultiHeadAttention,
    ScaledDot,
    ScoredAttention,
    SharedAttention,
)
from regard.generation import PositionLimit
from regard.layers import CausalTransformer, Tokens
from regard.models import GPT2, GPT2Config


def test_an_attention_layer_takes_its_sequences_by_their_old_name():
    with pytest.warns(DeprecationWarning, match="between is called sequences"):
        layer: Any = MultiHeadAttention(4, heads=1, between=("target", "source"))  # type: ignore[call-arg]
    assert layer.sequences == ("target", "source")
    with pytest.warns(DeprecationWarning, match="between is called sequences"):
        assert layer.between == layer.sequences
    parts = {name: torch.nn.Identity() for name in ("query_key", "value", "output")}
    with pytest.warns(DeprecationWarning, match="between is called sequences"):
        shared = SharedAttention(**parts, attention=ScoredAttention(ScaledDot()), heads=1, between=("target", "target"))  # type: ignore[call-arg]
    assert shared.sequences == ("target", "target")


def test_a_mask_is_materialized_by_its_old_name():
    with pytest.warns(DeprecationWarning, match="materialize"):
        assert Causal().evaluated(batch=1, queries=2, keys=2).tensor[0, 0].tolist() == [[True, False], [True, True]]


def test_a_declaration_takes_its_extra_output_by_its_old_name():
    with pytest.warns(DeprecationWarning, match="added is called extra_output"):
        said: Any = Declaration(added=True)  # type: ignore[call-arg]
    assert said.extra_output


def test_a_mechanism_may_define_the_old_methods():
    with pytest.warns(DeprecationWarning, match="called (extra_output|replay_state)") as warned:

        class Old(ScoredAttention):
            def added(self, inputs: AttentionInputs, weights: Tensor) -> Tensor:
                return weights

            def decided(self, inputs: AttentionInputs) -> dict[str, Tensor]:
                return {"chosen": inputs.query}

    assert len(warned) == 2
    inputs = AttentionInputs(query=torch.zeros(1, 1, 1, 2), key=torch.zeros(1, 1, 1, 2))
    mechanism = Old(ScaledDot())
    assert mechanism.extra_output(inputs, torch.ones(1)) == 1
    assert list(mechanism.replay_state(inputs)) == ["chosen"]


def test_tokens_know_the_side_of_padding_by_its_old_name():
    ids = torch.ones(1, 2, dtype=torch.long)
    with pytest.warns(DeprecationWarning, match="padded is called padding_side"):
        tokens: Any = Tokens(ids, ids.bool(), padded="nowhere")  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="padded is called padding_side"):
        assert tokens.padded == tokens.padding_side == "nowhere"


def test_a_stack_takes_its_sliding_windows_by_their_old_name():
    model = GPT2(GPT2Config(vocabulary=9, width=8, heads=1, feedforward_width=8, layers=1, maximum_positions=4))
    with pytest.warns(DeprecationWarning, match="bands is called sliding_windows"):
        stack: Any = CausalTransformer(
            model.config,
            embedding=model.embedding,  # type: ignore[arg-type]
            layers=list(model.layers),
            norm=model.norm,
            bands=[2],  # type: ignore[call-arg]
        )
    assert stack.sliding_windows == (2,)


def test_two_classes_have_old_names():
    with pytest.warns(DeprecationWarning, match="KVBuffer"):
        assert regard.attention.Room is KVBuffer  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="PositionLimit"):
        assert regard.generation.Room is PositionLimit  # type: ignore[attr-defined]
