"""Folders of language models that `transformers` wrote: every command opens them and answers as `generate` does there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings

transformers = pytest.importorskip("transformers")

TEXTS = ["the dog barks at the cat .", "a cat sleeps", "dogs and cats run", "a man reads a book in the sun"]
END = "<|endoftext|>"


def byte_pieces() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=290, special_tokens=[END], initial_alphabet=alphabet)
    )
    return made


def gpt_pieces() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    made.train_from_iterator(
        TEXTS * 3, trainers.BpeTrainer(vocab_size=80, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    )
    return made


def words() -> tokenizers.Tokenizer:
    vocabulary = {"<pad>": 0, "<unk>": 1, "</s>": 2}
    for text in TEXTS:
        for word in text.split():
            vocabulary.setdefault("▁" + word, len(vocabulary))
    made = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<pad>", "<unk>", "</s>"])
    return made


def gpt2(vocabulary: int):
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_embd=20, n_head=4, n_layer=3, n_positions=48, n_inner=36, activation_function="relu",
        bos_token_id=0, eos_token_id=0, layer_norm_epsilon=1e-3,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def gpt(vocabulary: int):
    config = transformers.OpenAIGPTConfig(vocab_size=vocabulary, n_embd=18, n_head=3, n_layer=2, n_positions=40)
    return transformers.OpenAIGPTLMHeadModel(config)


def reformer(vocabulary: int):
    config = transformers.ReformerConfig(
        vocab_size=vocabulary, hidden_size=24, attention_head_size=6, num_attention_heads=3, feed_forward_size=30,
        attn_layers=["local", "lsh", "local"], local_attn_chunk_length=32, lsh_attn_chunk_length=32, num_buckets=4, num_hashes=2,
        hash_seed=5, axial_pos_shape=[8, 8], axial_pos_embds_dim=[8, 16], max_position_embeddings=64, is_decoder=True,
        pad_token_id=0, eos_token_id=2, bos_token_id=2, hidden_act="gelu",
    )  # fmt: skip
    return transformers.ReformerModelWithLMHead(config)


FAMILIES = {
    "gpt2": (gpt2, byte_pieces, {"eos_token": END, "bos_token": END, "unk_token": END}),
    "openai-gpt": (gpt, gpt_pieces, {"unk_token": "<unk>"}),
    "reformer": (reformer, words, {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}),
}


@pytest.fixture(scope="module", params=list(FAMILIES))
def written(request, tmp_path_factory):
    """The folder, the model and the tokenizer of one family, as `transformers` has them."""
    build, pieces, roles = FAMILIES[request.param]
    torch.manual_seed(11)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces(), **roles)
    model = build(len(tokenizer)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    for name, buffer in model.named_buffers():
        if name.endswith("self_mask_value_float32"):
            buffer.fill_(-1e3)  # at -100000 their float32 rounds the first token's softmax by a half percent
    if request.param == "reformer":
        torch.nn.init.zeros_(model.lm_head.bias)  # which theirs does not add since version 5
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, model, tokenizer


def continued(model, tokenizer, text: str, **options) -> list[int]:
    read = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    never = [
        [index] for index in {tokenizer.unk_token_id, tokenizer.pad_token_id} - {tokenizer.eos_token_id or 0, None}
    ]
    with torch.no_grad():
        made = model.generate(
            read,
            attention_mask=torch.ones_like(read),
            max_new_tokens=9,
            do_sample=False,
            bad_words_ids=never or None,
            pad_token_id=tokenizer.pad_token_id or 0,
            eos_token_id=tokenizer.eos_token_id or 0,  # GPT has none; here its <unk> is one
            **options,
        )
    return made[0, read.shape[1] :].tolist()


@pytest.mark.parametrize("text", ["the dog", "a cat sleeps in the sun"])
def test_greedy_text_is_that_of_generate_there(written, text):
    folder, model, tokenizer = written
    found = regard.load(folder).generate(text, GenerationSettings(maximum_length=9))
    assert list(found.ids) == continued(model, tokenizer, text)


def test_a_beams_text_is_that_of_generate_there(written):
    folder, model, tokenizer = written
    if model.config.model_type == "reformer":
        pytest.skip("transformers refuses beams over a Reformer's cache")
    settings = GenerationSettings(beam=3, length_penalty=0.0, maximum_length=9)
    found = regard.load(folder).generate("a man reads", settings)
    theirs = continued(model, tokenizer, "a man reads", num_beams=3, length_penalty=0.0, early_stopping="never")
    assert list(found.ids) == theirs


def test_scores_are_log_probabilities_there(written):
    folder, model, tokenizer = written
    predictor = regard.load(folder)
    text = "the dog sleeps"
    ids = tokenizer.encode(text, add_special_tokens=False)
    end = predictor.task.tokenizer.end_id
    with torch.no_grad():
        logits = model(torch.tensor([[end, *ids]])).logits[0].log_softmax(-1)
    wanted = [logits[place, index].item() for place, index in enumerate([*ids, end])]
    assert list(predictor.score(text).log_probabilities) == pytest.approx(wanted, rel=2e-5, abs=2e-5)


def test_every_command_opens_the_folder(written, command, tmp_path):
    folder, _, tokenizer = written
    text = "the dog sleeps"
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))
    made = command("generate", folder, text, "--maximum-length", "5")
    assert made.code == 0, made.err
    seen = command("look", folder, text, "--json")
    assert seen.code == 0, seen.err
    for item in json.loads(seen.out)["maps"]:
        assert item["query_tokens"] == item["key_tokens"] == pieces
    walked = command("walk", folder, text, "--position", "1")
    assert walked.code == 0, walked.err
    shown = pieces[1].replace("Ġ", "␣").replace("▁", "␣")
    assert f"query: {shown}," in walked.out
    told = command("info", folder)
    assert told.code == 0
    assert "language modelling" in told.out
    assert "another program" in told.out
    (tmp_path / "text.txt").write_text(text + "\n", encoding="utf-8")
    judged = command("evaluate", folder, tmp_path / "text.txt", "--json")
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["metrics"]["perplexity"] > 1


def test_saved_anew_it_writes_the_same(written, tmp_path):
    folder, model, tokenizer = written
    predictor = regard.load(folder)
    predictor.save(tmp_path / "again")
    settings = GenerationSettings(maximum_length=9)
    assert regard.load(tmp_path / "again").generate("a cat", settings) == predictor.generate("a cat", settings)
    theirs = type(model).from_pretrained(tmp_path / "again").eval()
    assert continued(theirs, tokenizer, "a cat") == continued(model, tokenizer, "a cat")


def test_what_the_tokenizer_puts_before_prompts_is_read(tmp_path):
    torch.manual_seed(2)
    pieces = byte_pieces()
    pieces.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    model = gpt2(pieces.get_vocab_size()).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    model.save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token=END, bos_token=END).save_pretrained(
        tmp_path
    )
    predictor = regard.load(tmp_path)
    assert predictor.task.prompted([5, 6]) == [0, 5, 6]
    read = torch.tensor([pieces.encode("a cat").ids])
    with torch.no_grad():
        made = model.generate(
            read, attention_mask=torch.ones_like(read), max_new_tokens=6, do_sample=False, pad_token_id=0
        )
    found = predictor.generate("a cat", GenerationSettings(maximum_length=6))
    assert list(found.ids) == made[0, read.shape[1] :].tolist()


def test_tokenizer_and_config_have_to_belong_together(written, tmp_path):
    folder, _, _ = written
    for path in Path(folder).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["eos_token_id"] = 1 if config.get("eos_token_id") != 1 else 3
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match=r"where config\.json's eos_token_id is"):
        regard.load(tmp_path)
