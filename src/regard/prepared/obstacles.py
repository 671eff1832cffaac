"""Why a model cannot have quantised weights, as half a sentence; empty where it can."""

from __future__ import annotations

from torch import nn

from regard.attention import AttentionLayer, ScoredAttention
from regard.layers import CausalBlock, DecoderBlock, EncoderBlock, FeedForward, Residual
from regard.prepared.linear import activation_name
from regard.prepared.watched import is_watched


def obstacle_outside(model: nn.Module) -> str:
    """What it is about the place or the use of a model, whatever it is made of."""
    if any(map(is_watched, model.modules())):
        return "somebody looks at it, or has changed it"
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        return "it is not on a processor"
    return ""


def obstacle_in(block: nn.Module) -> str:
    """What it is about a block."""
    if type(block) not in (CausalBlock, EncoderBlock, DecoderBlock):
        return "its blocks are of another kind"
    attentions = [block.attention, *([block.cross_attention] if isinstance(block, DecoderBlock) else [])]
    residuals = [part for part in block.children() if isinstance(part, Residual)]
    norms = [norm for residual in residuals for norm in (residual.before, residual.after)]
    if any(type(part) is not Residual for part in residuals) or not all(
        type(norm) in (nn.LayerNorm, nn.Identity) for norm in norms
    ):
        return "its norms are not layer norms"
    return next(filter(None, map(_obstacle_in_attention, attentions)), "") or _obstacle_in_net(block.feedforward)  # type: ignore[arg-type]


def _obstacle_in_attention(attention: nn.Module) -> str:
    if not isinstance(attention, AttentionLayer) or type(attention).forward is not AttentionLayer.forward:
        return "the attention of its blocks is of another kind"
    if any(type(part) is not nn.Linear for part in (attention.query, attention.key, attention.value, attention.output)):
        return "its linear maps are not plain ones"
    mechanism = attention.attention
    dot = type(mechanism) is ScoredAttention and mechanism.alignment.plain_softmax
    if not dot or mechanism.score.product_scale(1) is None or attention.key_heads != attention.heads:  # type: ignore[union-attr]
        return "its attention is not the scaled dot product with a softmax"
    return ""


def _obstacle_in_net(feedforward: nn.Module) -> str:
    if type(feedforward) is not FeedForward or activation_name(feedforward.activation) is None:
        return "the feed-forward nets of its blocks are of another kind"
    if any(type(part) is not nn.Linear for part in (feedforward.inner, feedforward.outer)):
        return "its linear maps are not plain ones"
    return ""
