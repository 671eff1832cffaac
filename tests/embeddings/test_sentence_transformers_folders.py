"""Folders of sentence-transformers, in the older and the newer spelling: what they say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints import write_tensors
from regard.embeddings.pooling import Dense
from regard.embeddings.sentence_transformers import SentenceModules, read_modules, write_modules
from regard.errors import InputError


def write(folder: Path, *kinds: str, **files: Any) -> Path:
    """A folder with these modules; further files by their path, with two underscores for a slash and none for the ending."""
    listed = [
        {
            "idx": number,
            "name": str(number),
            "path": "" if number == 0 else f"{number}_{kind}",
            "type": f"somewhere.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    files = {"modules": listed} | files
    for name, values in files.items():
        path = folder / (name.replace("__", "/") + ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    return folder


OLD = {"word_embedding_dimension": 12, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
USUAL = ("Transformer", "Pooling", "Normalize")


def test_a_folder_without_modules_is_not_one(tmp_path):
    assert read_modules(tmp_path) is None


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        (OLD, ("mean",)),
        ({"pooling_mode_lasttoken": True, "pooling_mode_max_tokens": True}, ("max", "last")),
        ({"pooling_mode_weightedmean_tokens": True}, ("weighted_mean",)),
        ({"pooling_mode_mean_sqrt_len_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean_sqrt_length")),
        ({"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": True}, ("mean",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
    ],
)
def test_poolings_in_both_spellings(tmp_path, config, modes):
    found = read_modules(write(tmp_path, *USUAL, **{"1_Pooling__config": config}))
    assert found == SentenceModules(pooling=modes, normalise=True)


def test_lengths_are_where_the_release_put_them(tmp_path):
    folder = write(tmp_path, *USUAL, **{"1_Pooling__config": OLD, "tokenizer_config": {"model_max_length": 256}})
    assert read_modules(folder).maximum_length == 256
    write(folder, *USUAL, sentence_bert_config={"max_seq_length": 64, "do_lower_case": True})
    found = read_modules(folder)
    assert (found.maximum_length, found.lowercase) == (64, True)
    write(folder, *USUAL, sentence_bert_config={}, tokenizer_config={"model_max_length": int(1e30)})
    assert read_modules(folder).maximum_length is None


def test_prompts(tmp_path):
    said = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    folder = write(tmp_path, *USUAL, **{"1_Pooling__config": OLD, "config_sentence_transformers": said})
    found = read_modules(folder)
    assert (found.prompts, found.prompt) == ({"query": "query: ", "document": ""}, "query")
    write(folder, *USUAL, config_sentence_transformers=said | {"default_prompt_name": "qury"})
    with pytest.raises(InputError, match="did you mean 'query'"):
        read_modules(folder)


@pytest.mark.parametrize("modes", [("mean",), ("max", "last"), ("last", "max")])
@pytest.mark.parametrize("dense", [(), (("tanh", True), ("identity", False))])
def test_what_is_written_is_read_again(tmp_path, modes, dense, generator):
    maps = tuple(
        Dense(torch.randn(5, 7, generator=generator), torch.randn(5, generator=generator) if bias else None, activation)
        for activation, bias in dense
    )
    modules = SentenceModules(
        pooling=modes, dense=maps, normalise=True, maximum_length=40, lowercase=True, prompts={"a": "b: "}, prompt="a"
    )
    write_modules(tmp_path, modules, width=12, maximum=40)
    assert read_modules(tmp_path) == modules
    listed = json.loads((tmp_path / "modules.json").read_text())
    assert [module["path"] for module in listed][-1] == f"{2 + len(dense)}_Normalize"


@pytest.mark.parametrize(
    ("kinds", "files", "message"),
    [
        (("Transformer", "Pooling", "LSTM"), {}, "the module LSTM is not known"),
        (("Transformer", "Pooling", "Normalize", "Dense"), {}, "Dense, which Regard does not support at this position"),
        (("Transformer", "Dense", "Pooling"), {}, "does not support at this position"),
        (("Pooling",), {}, "does not support at this position"),
        (("Transformer", "Normalize"), {}, "no Pooling"),
        (USUAL, {"1_Pooling__config": {"pooling_mode": "meen"}}, "did you mean 'mean'"),
        (USUAL, {"1_Pooling__config": {}}, "sets no pooling mode"),
        (USUAL, {"1_Pooling__config": []}, "is not a JSON object"),
        (USUAL, {"modules": {}}, "is not a list of modules"),
        (USUAL, {"sentence_bert_config": None}, r"sentence_bert_config\.json: is not a JSON object"),
        (USUAL, {"config_sentence_transformers": {"prompts": ["a"]}}, "prompts is .* must be a mapping"),
        (USUAL, {"config_sentence_transformers": {"prompts": {"a": 1}}}, "prompts.a is 1; it must be text"),
        (USUAL, {"config_sentence_transformers": {"default_prompt_name": []}}, r"default_prompt_name is \[\]"),
        (("Transformer", "Pooling", "Dense"), {"2_Dense__config": {"use_residual": True}}, "is not a plain linear map"),
        (
            ("Transformer", "Pooling", "Dense"),
            {"2_Dense__config": {"activation_function": "a.Mish"}},
            "activation Mish",
        ),
        (("Transformer", "Pooling", "Dense"), {"2_Dense__config": {}}, "pickle files are not read"),
    ],
)
def test_what_regard_does_not_have_is_said(tmp_path, kinds, files, message):
    with pytest.raises(InputError, match=message):
        read_modules(write(tmp_path, *kinds, **({"1_Pooling__config": OLD} | files)))


def test_weights_that_are_none(tmp_path):
    folder = write(tmp_path, "Transformer", "Pooling", "Dense", **{"1_Pooling__config": OLD, "2_Dense__config": {}})
    write_tensors(folder / "2_Dense" / "model.safetensors", {"other": torch.ones(2)})
    with pytest.raises(InputError, match=r"no linear\.weight"):
        read_modules(folder)
    (folder / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(InputError, match="JSON"):
        read_modules(folder)
