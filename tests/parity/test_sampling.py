"""What is done to the logits before a token is drawn, beside the processors of transformers, for decoders of its folders."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.checkpoints import read_model
from regard.generation import Continuation, FixedLength, GenerationSettings, Paths, generate
from regard.layers import Tokens

transformers = pytest.importorskip("transformers")

NEW = 9
SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 36,
    "intermediate_size": 50,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
FAMILIES = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=1)),
    "gpt_neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SIZES, rotary_pct=0.5)),
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "temperature, sharper": ({"temperature": 0.6}, {"temperature": 0.6}),
    "temperature, flatter": ({"temperature": 3.5}, {"temperature": 3.5}),
    "top-k": ({"top_k": 7}, {"top_k": 7}),
    "top-k of more than there are": ({"top_k": 100}, {"top_k": 100}),
    "top-p": ({"top_p": 0.8}, {"top_p": 0.8}),
    "top-p of less than the best": ({"top_p": 1e-4}, {"top_p": 1e-4}),
    "min-p": ({"min_p": 0.1}, {"min_p": 0.1}),
    "min-p of the best alone": ({"min_p": 1.0}, {"min_p": 1.0}),
    "repetition": ({"repetition_penalty": 1.7}, {"repetition_penalty": 1.7}),
    "repetition, the more the better": ({"repetition_penalty": 0.6}, {"repetition_penalty": 0.6}),
    "no token twice": ({"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 1}),
    "no pair twice": ({"no_repeat_ngram_size": 2, "top_k": 2}, {"no_repeat_ngram_size": 2, "top_k": 2}),
    "minimum length": ({"minimum_length": 6}, {"min_new_tokens": 6}),
    "all together": (
        {
            "temperature": 1.4,
            "top_k": 30,
            "top_p": 0.9,
            "min_p": 0.02,
            "repetition_penalty": 1.3,
            "no_repeat_ngram_size": 3,
            "minimum_length": 4,
        },
        {
            "temperature": 1.4,
            "top_k": 30,
            "top_p": 0.9,
            "min_p": 0.02,
            "repetition_penalty": 1.3,
            "no_repeat_ngram_size": 3,
            "min_new_tokens": 4,
        },
    ),
}


class Following:
    """Takes tokens that were drawn elsewhere, and keeps the probabilities that they would have been drawn from here."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens
        self.seen: list[torch.Tensor] = []

    def begin(self, count: int) -> Any:
        assert count == 1
        return self._next

    def _next(self, logits: torch.Tensor, paths: Any) -> torch.Tensor:
        self.seen.append(logits.softmax(dim=-1)[0])
        return self.tokens[len(self.seen) - 1][None]


@pytest.fixture(scope="module", params=FAMILIES)
def both(request, tmp_path_factory) -> tuple[Any, Any]:
    """A model of theirs with wide weights, which ends its texts now and then, and its folder read by us."""
    generator = torch.Generator().manual_seed(11)
    theirs = FAMILIES[request.param]().eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * 0.3
            parameter.copy_(1 + drawn if name.endswith(("norm.weight", "layernorm.weight")) else drawn)
    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    return theirs, read_model(folder)


@pytest.mark.parametrize("case", CASES)
def test_each_token_is_drawn_from_the_same_distribution(case, both):
    """Along texts that theirs draws, prompt and repetition and all; their distribution is that of `generate` itself."""
    theirs, model = both
    ours, wanted = CASES[case]
    settings = GenerationSettings(sample=True, **ours)
    compared = 0
    for seed, prompt in enumerate(([3, 9, 4, 11, 3, 9], [7], [8, 8, 9, 1, 20, 21, 22, 8])):
        source = Tokens.pad([prompt])
        torch.manual_seed(seed)
        defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        drawn = theirs.generate(
            source.ids,
            attention_mask=torch.ones_like(source.ids),
            do_sample=True,
            max_new_tokens=NEW,
            output_scores=True,
            return_dict_in_generate=True,
            **defaults | wanted,
        )
        follow = Following(drawn.sequences[0, len(prompt) :])
        generate(
            Continuation(model),
            source,
            choose=follow,
            transforms=settings.changes(source),
            limit=FixedLength(NEW),
            minimum_length=settings.minimum_length,
        )
        assert len(follow.seen) == len(drawn.scores)
        for found, scores in zip(follow.seen, drawn.scores, strict=True):
            expected = scores[0].softmax(dim=-1)
            assert torch.equal(found > 0, expected > 0)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
            compared += 1
    assert compared > NEW


@pytest.mark.parametrize("case", CASES)
def test_on_the_same_logits_the_transforms_are_their_processors(case, both):
    """Within rounding of single operations: nothing is left that the two models might differ in."""
    theirs, _ = both
    ours, wanted = CASES[case]
    settings = GenerationSettings(sample=True, **{name: ours[name] for name in ours if name != "minimum_length"})
    prompt = torch.tensor([[3, 9, 4, 11, 3, 9, 30, 3]])
    with torch.no_grad():
        logits = theirs(prompt).logits[:, -1]
    config = transformers.GenerationConfig(
        do_sample=True, eos_token_id=2, **{"temperature": 1.0, "top_k": 0, "top_p": 1.0} | wanted
    )
    config.min_new_tokens = None
    processors = theirs._get_logits_processor(
        generation_config=config, input_ids_seq_length=prompt.shape[1], device="cpu"
    )
    expected = processors(prompt, logits)
    found = logits
    for transform in settings.changes(Tokens.pad(prompt.tolist())):
        found = transform(found, Paths.begin(1, "cpu"))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
