"""What `regard check` says of vLLM and text-embeddings-inference: for folders of transformers, and for what a folder lacks."""

import json
import warnings
from pathlib import Path

import pytest
import torch
import transformers

from regard.checking import check
from regard.checking.servers import TEI, VLLM
from regard.models import MODELS
from regard.models.modernbert import ModernBertConfig
from regard.tasks.classification import ClassificationTask, Classifier
from regard.text import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "folders"

SMALL = {
    "vocab_size": 40,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"vocab_size": 40, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 16, "pad_token_id": 0}
DISTIL = {"vocab_size": 40, "dim": 64, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 16}
CLASSES = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
PLAIN_CLASSES, DEFAULT_VECTORS = "classes of texts", "text embeddings (pooling: cls, its default without 1_Pooling)"


def folder_of(architecture: str, place: Path, **changed) -> Path:
    """A folder as transformers writes it, with a tokenizer.json."""
    cls = getattr(transformers, architecture)
    known = {"GPT2Config": GPT2, "DistilBertConfig": DISTIL}.get(cls.config_class.__name__, SMALL)
    cls(cls.config_class(**{**known, **CLASSES, **changed})).save_pretrained(place)
    (place / "tokenizer.json").write_text("{}")
    return place


def change(file: Path, *gone: str, **values) -> None:
    """Set fields of a JSON file, and take others out."""
    said = json.loads(file.read_text()) | values
    file.write_text(json.dumps({name: value for name, value in said.items() if name not in gone}))


@pytest.mark.parametrize(
    ("architecture", "vllm", "tei"),
    [
        ("GPT2LMHeadModel", "GPT2LMHeadModel", None),
        ("GPT2ForSequenceClassification", "GPT2ForSequenceClassification", None),
        ("GPTNeoXForCausalLM", "GPTNeoXForCausalLM, through transformers", None),
        ("LlamaForCausalLM", "LlamaForCausalLM", None),
        ("LlamaForSequenceClassification", "LlamaForSequenceClassification", None),
        ("MistralForCausalLM", "MistralForCausalLM", None),
        ("Qwen2ForCausalLM", "Qwen2ForCausalLM", None),
        ("Qwen3ForCausalLM", "Qwen3ForCausalLM", None),
        ("BertModel", "BertModel", DEFAULT_VECTORS),
        ("BertForMaskedLM", "BertForMaskedLM", DEFAULT_VECTORS),
        ("BertForSequenceClassification", "BertForSequenceClassification", PLAIN_CLASSES),
        ("BertForTokenClassification", "BertForTokenClassification", None),
        ("RobertaModel", "RobertaModel", DEFAULT_VECTORS),
        ("RobertaForSequenceClassification", "RobertaForSequenceClassification", PLAIN_CLASSES),
        ("XLMRobertaForSequenceClassification", "XLMRobertaForSequenceClassification", PLAIN_CLASSES),
        ("CamembertForSequenceClassification", None, PLAIN_CLASSES),
        ("DistilBertModel", None, DEFAULT_VECTORS),
        ("DistilBertForSequenceClassification", None, PLAIN_CLASSES),
        ("ModernBertModel", "ModernBertModel", None),
        ("ModernBertForSequenceClassification", "ModernBertForSequenceClassification", None),
        ("ElectraForSequenceClassification", None, None),
        ("BertForQuestionAnswering", None, None),
    ],
)
def test_each_architecture_of_transformers_with_all_its_tensors(architecture, vllm, tei, tmp_path):
    report = check(folder_of(architecture, tmp_path))
    assert (report.readers.get(VLLM), report.readers.get(TEI)) == (vllm, tei)
    assert not [note for note in report.notes if "no tensor" in note]
    said = [note for note in report.notes if note.startswith(TEI)]
    if architecture == "BertForTokenClassification":
        assert "as a classifier of whole texts" in said[0]
    elif architecture.startswith("ModernBert"):  # transformers 5 writes the bases of its rotation elsewhere
        assert "global_rope_theta, local_rope_theta" in said[0]


def test_what_a_folder_lacks_is_said_by_name(tmp_path):
    folder = folder_of("BertForSequenceClassification", tmp_path)
    change(folder / "config.json", "label2id", "pad_token_id")
    (folder / "tokenizer.json").unlink()
    report = check(folder)
    assert not {VLLM, TEI} & report.readers.keys()
    assert f"{VLLM} does not open it: no tokenizer.json" in report.notes
    assert f"{TEI} does not open it: pad_token_id, label2id missing in config.json, no tokenizer.json" in report.notes


def test_architectures_that_config_json_does_not_name(tmp_path):
    folder = folder_of("BertModel", tmp_path)
    change(folder / "config.json", "architectures")
    assert {f"{name} does not open it: architectures is missing in config.json" for name in (VLLM, TEI)} <= {
        *check(folder).notes
    }


def test_tensors_and_shards_that_are_not_there(tmp_path):
    folder = folder_of("LlamaForCausalLM", tmp_path / "llama", num_hidden_layers=3)
    change(folder / "config.json", num_hidden_layers=4)
    assert (
        f"{VLLM} does not open it: no tensor model.layers.3.self_attn.q_proj.weight, model.layers.3.self_attn.k_proj.weight, "
        "model.layers.3.self_attn.v_proj.weight and 6 more in model.safetensors"
    ) in check(folder).notes
    (folder / "model.safetensors").unlink()
    assert f"{VLLM} does not open it: no weights in safetensors" in check(folder).notes
    cut = tmp_path / "shards"
    folder_of("LlamaForCausalLM", cut).joinpath("model.safetensors").unlink()
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    model.save_pretrained(cut, max_shard_size="20KB")
    assert check(cut).readers[VLLM] == "LlamaForCausalLM"
    next(cut.glob("model-00002*")).unlink()
    assert f"{VLLM} does not open it: no weights in safetensors" in check(cut).notes


def test_an_output_table_that_is_not_the_embedding_has_to_be_there(tmp_path):
    folder = folder_of("GPT2LMHeadModel", tmp_path)
    change(folder / "config.json", tie_word_embeddings=False)
    assert f"{VLLM} does not open it: no tensor lm_head.weight in model.safetensors" in check(folder).notes


def test_what_each_computes_otherwise_or_not_at_all(tmp_path):
    exact = folder_of("BertModel", tmp_path / "exact", num_attention_heads=4, hidden_act="gelu")
    notes = check(exact).notes
    assert any("GELU by the tanh approximation" in note for note in notes)
    assert any("no CPU kernel for attention heads of width 16" in note for note in notes)
    relu = folder_of("BertModel", tmp_path / "relu", hidden_act="relu")
    assert not check(relu).notes or not any(note.startswith((VLLM, TEI)) for note in check(relu).notes)
    gated = folder_of("LlamaForCausalLM", tmp_path / "gated", hidden_act="gelu")
    assert VLLM not in check(gated).readers
    assert any("hidden_act is 'gelu'" in note for note in check(gated).notes)
    number = folder_of("BertForSequenceClassification", tmp_path / "number", problem_type="regression")
    assert any("request raw_scores" in note for note in check(number).notes)


def test_the_pooling_of_a_sentence_encoder_is_followed_or_what_is_wrong_with_it_said(tmp_path):
    folder = folder_of("BertModel", tmp_path, hidden_act="relu")
    said = folder / "1_Pooling" / "config.json"
    said.parent.mkdir()
    flags = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    said.write_text(json.dumps(flags))
    assert check(folder).readers[TEI] == "text embeddings (pooling: mean)"
    for change_, words in (
        ({"pooling_mode_max_tokens": True}, "a pooling other than cls or mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}, "for decoders only"),
        ({"pooling_mode_mean_tokens": None}, "pooling_mode_mean_tokens missing in 1_Pooling/config.json"),
    ):
        said.write_text(json.dumps(flags | change_))
        report = check(folder)
        assert TEI not in report.readers
        assert any(words in note for note in report.notes), report.notes


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        ("bert-embedding", {VLLM: "BertModel", TEI: "text embeddings (pooling: mean)"}),
        ("xlm_roberta", {VLLM: "XLMRobertaForSequenceClassification", TEI: "classes of texts"}),
        ("gpt_neox", {VLLM: "GPTNeoXForCausalLM, through transformers"}),
        ("llama", {VLLM: "LlamaForCausalLM"}),
        ("t5-text-to-text", {}),
        ("cho", {}),
    ],
)
def test_folders_that_regard_wrote(name, servers):
    readers = check(GOLDEN / name).readers
    assert {server: readers[server] for server in (VLLM, TEI) if server in readers} == servers


def test_a_classifier_of_modernbert_names_the_ids_of_its_tokens_and_opens_the_same_in_transformers(tmp_path):
    tokenizer = Tokenizer.train(["a cat sat on a mat"] * 3, kind="bert", size=60, lowercase=True)
    task = ClassificationTask(tokenizer=tokenizer, classes=("no", "yes", "perhaps"), maximum_length=16, pairs=False)
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": 24}
    config = ModernBertConfig(**sizes, **task.model_settings())
    predictor = Classifier(MODELS["modernbert"].model(config).eval(), task)
    predictor.save(tmp_path / "saved")
    assert check(tmp_path / "saved").readers[TEI] == "classes of texts"
    said = json.loads((tmp_path / "saved" / "config.json").read_text())
    start, end = tokenizer.find("[CLS]"), tokenizer.find("[SEP]")
    named = {"bos_token_id": start, "cls_token_id": start, "eos_token_id": end, "sep_token_id": end, "num_labels": 3}
    assert {name: said[name] for name in named} == named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    assert theirs.config.num_labels == 3
    assert theirs.config.id2label == {0: "no", 1: "yes", 2: "perhaps"}
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    encoded = reader("a cat sat", return_tensors="pt")
    with torch.no_grad():
        found = theirs(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits.softmax(-1)[0]
    expected = list(predictor.classify("a cat sat").probabilities.values())
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
