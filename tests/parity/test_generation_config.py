"""A folder of `transformers` decodes as its generation_config.json says there: our tokens beside those of `generate`."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
import torch

import regard
from regard.cli.main import main
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import GPT2, GPT2Config
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.tasks.generation_config import GENERATION_FIELDS
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["the dog", "Où est-il? a", "never mind the cat", "été"]
PROMPTS = ["the", "a", "Où"]
CONFIGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "max_length": {"max_length": 5},
    "max_new_tokens": {"max_new_tokens": 6, "max_length": 30},
    "min_length": {"min_length": 6, "max_length": 12},
    "min_new_tokens": {"min_new_tokens": 6, "max_length": 12},
    "n-grams": {"no_repeat_ngram_size": 2},
    "single tokens once": {"no_repeat_ngram_size": 1, "max_new_tokens": 9},
    "repetition": {"repetition_penalty": 3.0},
    "bad words": {"bad_words_ids": [[index] for index in range(5, 40)], "suppress_tokens": list(range(60, 84))},
    "forced end": {"forced_eos_token_id": True, "max_length": 6},
    "several ends": {"eos_token_id": [True, *range(20, 40)], "max_length": 12},
    "several ends, later": {"eos_token_id": [True, *range(40, 80)], "min_new_tokens": 3, "max_length": 12},
    "other ends": {"eos_token_id": list(range(30, 60))},
    "beam": {"num_beams": 3},
    "beam, several ends": {"num_beams": 3, "eos_token_id": [*range(20, 40), True], "min_new_tokens": 2, "max_length": 9},
    "beam, other ends": {"num_beams": 2, "eos_token_id": list(range(30, 60)), "early_stopping": True},
    "beam, one finished is enough": {"num_beams": 3, "early_stopping": True},
    "beam, never": {"num_beams": 2, "early_stopping": "never", "length_penalty": 3.0, "max_length": 20},
    "beam, long": {"num_beams": 4, "length_penalty": 2.0, "max_length": 9},
    "beam, plain": {"num_beams": 4, "length_penalty": 0.0, "max_length": 9},
    "beam, at the cap": {"num_beams": 2, "max_new_tokens": 3},
    "beam of everything": {
        "num_beams": 3, "length_penalty": 0.7, "no_repeat_ngram_size": 2, "min_new_tokens": 3, "max_new_tokens": 8,
        "bad_words_ids": [[7]], "forced_eos_token_id": True, "num_return_sequences": 2,
    },
}  # fmt: skip
FIRST = {
    "greedy",
    "min_length",
    "bad words",
    "several ends, later",
    "beam, other ends",
    "beam, never",
    "beam of everything",
}
"""What every run of the tests decodes; the others are slow for what they add."""
SOME_FIRST = [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.slow]) for name in CONFIGS]


def asked(values: dict[str, Any], end_id: int, never: list[int]) -> dict[str, Any]:
    """Absent `max_length` is 20 there and has no limit of that kind here; what is never written here is not there."""
    values = {"max_length": 15, **values}
    values["bad_words_ids"] = [*values.get("bad_words_ids", []), *([index] for index in never)]
    if values.get("forced_eos_token_id"):
        values["forced_eos_token_id"] = end_id
    ends = [end_id if index is True else index for index in values.get("eos_token_id", ())]
    return {**values, "eos_token_id": ends or end_id, "pad_token_id": never[0]}


def shown(ids: list[int], ends: int | list[int]) -> list[int]:
    """Up to the first end token."""
    ends = ends if isinstance(ends, list) else [ends]
    return ids[: next((place for place, index in enumerate(ids) if index in ends), len(ids)) + 1]


@pytest.mark.parametrize("name", SOME_FIRST)
def test_translations_are_those_of_generate(name, made_elsewhere, tokenizer):
    folder, model = made_elsewhere("marian")
    with torch.no_grad():
        model.final_logits_bias[0, tokenizer.end_id] += 2.5
        model.model.shared.weight.mul_(2.5)
        model.model.shared.weight[tokenizer.padding_id].zero_()
    model.save_pretrained(folder)
    values = asked(CONFIGS[name], tokenizer.end_id, [tokenizer.padding_id])
    (folder / "generation_config.json").write_text(json.dumps({**values, "decoder_start_token_id": tokenizer.start_id}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = regard.load(folder)
    theirs = type(model).from_pretrained(folder).eval()
    for text in TEXTS:
        ids = torch.tensor([[*tokenizer.encode(text), tokenizer.end_id]])
        with torch.no_grad():
            wanted = theirs.generate(ids, attention_mask=torch.ones_like(ids))[0, 1:].tolist()
        found = ours.translate(text)
        assert list(found.target_tokens) == tokenizer.tokens(shown(wanted, values["eos_token_id"])), text
        assert 1 + len(found.alternatives) == values.get("num_return_sequences", 1)


@pytest.fixture(scope="module")
def gpt2(tokenizer, tmp_path_factory):
    torch.manual_seed(9)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.size, n_embd=20, n_head=4, n_layer=2, n_positions=48, eos_token_id=tokenizer.end_id,
        bos_token_id=tokenizer.end_id, pad_token_id=tokenizer.padding_id,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    with torch.no_grad():
        table = model.transformer.wte.weight
        table[tokenizer.end_id] = 1.05 * table[56]  # which comes after some tokens, so that texts end
    folder = tmp_path_factory.mktemp("gpt2")
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "min_length"])
def test_texts_of_a_language_model_are_those_of_generate(name, gpt2, tokenizer):
    never = [tokenizer.padding_id, tokenizer.unknown_id]
    values = asked(CONFIGS[name], tokenizer.end_id, never)
    (gpt2 / "generation_config.json").write_text(json.dumps(values))
    ours = regard.load(gpt2)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt2).eval()
    for text in PROMPTS:
        ids = torch.tensor([ours.task.prompted(tokenizer.encode(text))])
        with torch.no_grad():
            wanted = theirs.generate(ids, attention_mask=torch.ones_like(ids))[0, ids.shape[1] :].tolist()
        assert list(ours.generate(text).ids) == shown(wanted, values["eos_token_id"]), text


def test_what_is_not_followed_is_named(made_elsewhere, tokenizer, capsys):
    folder, _ = made_elsewhere("marian")
    values = {
        "eos_token_id": [tokenizer.end_id], "bad_words_ids": [[4, 5]], "encoder_no_repeat_ngram_size": 3, "num_beams": 2,
        "do_sample": True, "repetition_penalty": 1.2, "a_new_one": 1, "typical_p": 0.5, "guidance_scale": 1.0, "max_length": 9,
        "stop_strings": ["x"], "transformers_version": "5", "decoder_start_token_id": 3, "forced_eos_token_id": 7,
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(values))
    with pytest.warns(UserWarning, match=r"generation_config\.json: not followed") as told:
        regard.load(folder)
    named = {part.split()[0] for part in str(told[0].message).split("not followed: ")[1].split("; ")[0].split(", ")}
    assert named == set(values) - {
        "num_beams",
        "guidance_scale",
        "max_length",
        "transformers_version",
        "typical_p",
        "eos_token_id",
    }
    assert main(["translate", str(folder), "the dog"]) == 0
    assert "not followed: do_sample with num_beams" in capsys.readouterr().err


def test_sampling_is_followed_and_no_field_of_it_where_nothing_is_drawn(made_elsewhere):
    folder, _ = made_elsewhere("marian")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"do_sample": True, "temperature": 0.7, "top_p": 0.9, "max_length": 9}))
    assert regard.load(folder).task.generation == GenerationSettings(
        sample=True, temperature=0.7, top_p=0.9, top_k=50, maximum_length=8
    )
    path.write_text(json.dumps({"temperature": 0.7, "top_k": 3, "typical_p": 0.2}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert regard.load(folder).task.generation == GenerationSettings()
    for wrong in (
        '{"do_sample": 1}',
        "[]",
        '{"early_stopping": "soon"}',
        '{"length_penalty": -1, "num_beams": 2}',
        "{",
    ):
        path.write_text(wrong)
        with pytest.raises(InputError, match=r"generation_config\.json: (cannot be used|holds|is not JSON)"):
            regard.load(folder)


def test_settings_of_a_language_model_are_saved_with_it(gpt2, tmp_path):
    (gpt2 / "generation_config.json").write_text('{"max_length": 12, "repetition_penalty": 1.5}')
    loaded = regard.load(gpt2)
    loaded.save(tmp_path / "again")
    again = regard.load(tmp_path / "again")
    assert again.usual == GenerationSettings(total_length=12, repetition_penalty=1.5)
    assert again.generate("the dog") == loaded.generate("the dog")


def test_an_end_token_that_the_model_does_not_have_is_refused(gpt2):
    (gpt2 / "generation_config.json").write_text('{"eos_token_id": [4, 1000]}')
    with pytest.raises(InputError, match=r"end_tokens: the model has tokens from 0 to \d+, and 1000 is none of them"):
        regard.load(gpt2).generate("the")


def test_only_a_language_model_counts_its_prompt(made_elsewhere):
    folder, _ = made_elsewhere("marian")
    with pytest.raises(InputError, match="total_length: only a language model counts its prompt"):
        regard.load(folder).translate("the dog", GenerationSettings(total_length=9))
    task = LanguageModellingTask(Tokenizer.train(["a cat sat"], kind="word", size=20))
    config = GPT2Config(**task.model_settings(), width=4, heads=1, layers=1, feedforward_width=4, maximum_positions=20)
    model = LanguageModel(GPT2(config), task)
    begun = model.begin("a cat")
    settings = GenerationSettings(total_length=7, minimum_length=6)
    assert (
        len(model.generate("sat", settings, after=begun).ids) == 7 - 4 == len(model.generate("a cat sat", settings).ids)
    )


# --- settings in config.json, as folders of before generation_config.json have them ---

OLD = ("beam of everything", "greedy", "bad words", "max_length", "forced end")


@pytest.mark.parametrize("name", OLD)
def test_an_old_folder_is_decoded_as_its_config_says(name, made_elsewhere, tokenizer):
    folder, model = made_elsewhere("marian")
    with torch.no_grad():
        model.final_logits_bias[0, tokenizer.end_id] += 2.5
        model.model.shared.weight.mul_(2.5)
        model.model.shared.weight[tokenizer.padding_id].zero_()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    file = folder / "config.json"
    values = asked(CONFIGS[name], tokenizer.end_id, [tokenizer.padding_id])
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = regard.load(folder)
    theirs = type(model).from_pretrained(folder).eval()
    assert theirs.generation_config.max_length == values["max_length"]
    for text in TEXTS:
        ids = torch.tensor([[*tokenizer.encode(text), tokenizer.end_id]])
        with torch.no_grad():
            wanted = theirs.generate(ids, attention_mask=torch.ones_like(ids))[0, 1:].tolist()
        found = list(ours.translate(text).target_tokens)
        assert found == tokenizer.tokens(shown(wanted, values["eos_token_id"])), text


def test_an_old_language_model_is_decoded_as_its_config_says(gpt2, tokenizer, tmp_path):
    model = transformers.GPT2LMHeadModel.from_pretrained(gpt2)
    model.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    assert regard.load(tmp_path).task.generation is None  # nothing is asked for
    file = tmp_path / "config.json"
    said = {"max_length": 12, "repetition_penalty": 1.5, "encoder_no_repeat_ngram_size": 3}
    file.write_text(json.dumps({**json.loads(file.read_text()), **said}))
    with pytest.warns(UserWarning, match=r"/config\.json: not followed: encoder_no_repeat_ngram_size"):
        loaded = regard.load(tmp_path)
    assert loaded.task.generation == GenerationSettings(total_length=12, repetition_penalty=1.5)


def test_every_field_of_theirs_is_known():
    assert set(transformers.GenerationConfig().to_dict()) <= GENERATION_FIELDS
