"""Folders of RoBERTa, XLM-RoBERTa and ELECTRA as transformers writes them: tokenizers, answers, and the folders written back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

import regard
from regard.inspection.text_reader import TextReader
from regard.tasks.encoders import join
from regard.text import Tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = [
    "Paris is the capital of France, and Berlin is that of Germany.",
    "the small dog barks loudly, isn't it so? 1234",
    "naïve café — 日本語 🙂",
] * 8
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]


def roberta(**settings: Any) -> Any:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=340, initial_alphabet=letters, special_tokens=FIRST, show_progress=False)
    )
    model = json.loads(backend.to_str())["model"]
    vocabulary = model["vocab"] | {"<mask>": len(model["vocab"])}
    return transformers.RobertaTokenizer(
        vocab=vocabulary, merges=[tuple(merge) for merge in model["merges"]], **settings
    )


def xlm_roberta() -> Any:
    backend = Backend(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator(
        TEXTS, trainers.UnigramTrainer(vocab_size=120, special_tokens=FIRST, unk_token="<unk>", show_progress=False)
    )
    vocabulary = [tuple(piece) for piece in json.loads(backend.to_str())["model"]["vocab"]]
    return transformers.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)])


def electra() -> Any:
    trained = Tokenizer.train(TEXTS, kind="bert", size=160, lowercase=True)
    pieces = trained.tokens(range(trained.size))
    return transformers.ElectraTokenizer(vocab={piece: index for index, piece in enumerate(pieces)}, do_lower_case=True)


MADE = {"roberta": roberta, "xlm-roberta": xlm_roberta, "electra": electra}
NAMES = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "electra": "Electra"}
every_kind = pytest.mark.parametrize("kind", MADE)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """A folder as transformers writes it, every parameter drawn."""

    def make(kind: str, head: str = "ForMaskedLM", **changes: Any) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        tokenizer = MADE[kind]()
        tokenizer.save_pretrained(folder)
        torch.manual_seed(3)
        config = transformers.AutoConfig.for_model(
            kind,
            vocab_size=len(tokenizer),
            hidden_size=18,
            num_attention_heads=3,
            intermediate_size=11,
            num_hidden_layers=2,
            max_position_embeddings=68,
            pad_token_id=tokenizer.pad_token_id,
            **({"embedding_size": 10} if kind == "electra" else {}),
            **changes,
        )
        model = getattr(transformers, NAMES[kind] + head)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.4)
        model.save_pretrained(folder)
        return folder

    return make


def theirs(folder: Path, head: str) -> tuple[Any, Any]:
    classes = {
        "ForMaskedLM": transformers.AutoModelForMaskedLM,
        "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
        "ForTokenClassification": transformers.AutoModelForTokenClassification,
        "ForQuestionAnswering": transformers.AutoModelForQuestionAnswering,
    }
    return classes[head].from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


# --- tokenizers -------------------------------------------------------------------------------------------------


def masked(texts: list[str], mask: str) -> list[str]:
    draw = random.Random(1)
    return [text[: (place := draw.randint(0, len(text)))] + mask + text[place:] for text in texts]


@every_kind
@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_texts_have_the_ids_that_theirs_have(kind, count, nasty, tmp_path):
    other = MADE[kind]()
    other.save_pretrained(tmp_path)
    ours, texts = Tokenizer.load(tmp_path), nasty(count)
    plain = {"add_special_tokens": False, "split_special_tokens": True}
    assert ours.encode_batch(texts) == other(texts, **plain)["input_ids"]
    mask = other.mask_token
    assert [ours.encode_marked(text, (mask,)) for text in masked(texts, mask)] == [
        other(text, add_special_tokens=False)["input_ids"] for text in masked(texts, mask)
    ]
    ours.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").encode_batch(texts) == ours.encode_batch(texts)


@every_kind
def test_two_texts_have_between_them_what_theirs_have(kind, tmp_path):
    other = MADE[kind]()
    other.save_pretrained(tmp_path)
    ours = Tokenizer.load(tmp_path)
    first, second = ours.encode("the small dog"), ours.encode("barks loudly")
    assert join(ours, first, second, maximum=64).ids == other("the small dog", "barks loudly")["input_ids"]
    assert join(ours, first, maximum=64).ids == other("the small dog")["input_ids"]
    assert ours.surrounds


@pytest.mark.parametrize("spaced", [False, True])
def test_vocab_json_and_merges_are_read_as_roberta(spaced, nasty, tmp_path):
    other = roberta(add_prefix_space=spaced)
    model = json.loads(other.backend_tokenizer.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), "utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])), "utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": spaced}))
    ours, texts = Tokenizer.load(tmp_path), nasty(200)
    assert ours.kind == "roberta"
    assert ours.encode_batch(texts) == other(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]


@pytest.mark.parametrize("spaced", [False, True])
def test_the_config_decides_whether_a_space_is_put_before_a_text(spaced, tmp_path):
    roberta(add_prefix_space=not spaced).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"add_prefix_space": spaced}))
    other = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert Tokenizer.load(tmp_path).encode("the dog") == other("the dog", add_special_tokens=False)["input_ids"]


# --- answers ----------------------------------------------------------------------------------------------------


@every_kind
def test_the_same_candidates_with_the_same_probabilities(kind, folder_of, tmp_path):
    folder = folder_of(kind)
    regard.load(folder).save(tmp_path / "ours")
    for place in (folder, tmp_path / "ours"):
        other, tokenizer = theirs(place, "ForMaskedLM")
        mask = tokenizer.mask_token
        texts = [f"Paris is the {mask} of France.", f"the {mask} dog {mask}", f"{mask} is it"]
        for text, filled in zip(texts, regard.load(place).fill_batch(texts, top=5), strict=True):
            encoded = tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                logits = other(**encoded).logits
            best = logits[0][encoded["input_ids"][0] == tokenizer.mask_token_id].softmax(dim=-1).topk(5)
            for candidates, values, indices in zip(filled.masks, best.values, best.indices, strict=True):
                assert [each.token for each in candidates] == tokenizer.convert_ids_to_tokens(indices.tolist())
                assert [each.probability for each in candidates] == pytest.approx(values.tolist(), rel=1e-4)


LABELS = {"id2label": {0: "no", 1: "maybe", 2: "yes"}, "label2id": {"no": 0, "maybe": 1, "yes": 2}}
TAGS = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}


@every_kind
def test_pairs_are_classified_as_theirs_and_the_folder_comes_back(kind, folder_of, tmp_path):
    folder = folder_of(kind, "ForSequenceClassification", problem_type="single_label_classification", **LABELS)
    regard.load(folder).save(tmp_path / "ours")
    pairs = [("the small dog barks", "it is loud"), ("Paris", "is the capital of France, isn't it?")]
    for place in (folder, tmp_path / "ours"):
        other, tokenizer = theirs(place, "ForSequenceClassification")
        for pair, found in zip(pairs, regard.load(place).classify_batch(pairs), strict=True):
            with torch.no_grad():
                wanted = other(**tokenizer(*pair, return_tensors="pt")).logits.softmax(dim=-1)[0].tolist()
            assert [found.probabilities[name] for name in ("no", "maybe", "yes")] == pytest.approx(wanted, rel=1e-4)
    assert "which transformers opens" in (tmp_path / "ours" / "README.md").read_text()


@every_kind
def test_words_are_tagged_as_theirs(kind, folder_of):
    folder = folder_of(kind, "ForTokenClassification", **TAGS)
    other, tokenizer = theirs(folder, "ForTokenClassification")
    if kind == "roberta":
        tokenizer = roberta(add_prefix_space=True)  # without it they refuse words
    words = ["the", "small", "dog", "barks", "loudly", "Paris"]
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    places = encoded.word_ids()
    with torch.no_grad():
        logits = other(**encoded).logits[0]
    wanted = [other.config.id2label[int(logits[places.index(word)].argmax())] for word in range(len(words))]
    assert list(regard.load(folder).tag(words).tags) == wanted


@every_kind
def test_answers_are_found_where_theirs_are(kind, folder_of):
    folder = folder_of(kind, "ForQuestionAnswering")
    other, tokenizer = theirs(folder, "ForQuestionAnswering")
    question, context = "what barks?", "the small dog barks loudly, isn't it so?"
    encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        out = other(**encoded)
    inside = [place for place, which in enumerate(encoded.sequence_ids(0)) if which == 1]
    scored = [
        (float(out.start_logits[0, a] + out.end_logits[0, b]), offsets[a][0], offsets[b][1])
        for a in inside
        for b in inside
        if a <= b
    ]
    _, start, end = max(scored)
    assert regard.load(folder).answer(question, context).text == context[start:end]


@every_kind
def test_a_folder_becomes_a_sentence_encoder(kind, folder_of):
    folder = folder_of(kind, "Model")
    other = transformers.AutoModel.from_pretrained(folder).eval()
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(["the small dog"], return_tensors="pt")
    with torch.no_grad():
        mean = other(**encoded).last_hidden_state.mean(dim=1)[0]
    found = torch.as_tensor(regard.load(folder, task="sentence_embedding").embed(["the small dog"])[0])
    assert float(torch.nn.functional.cosine_similarity(found, mean, dim=0)) == pytest.approx(1.0, abs=1e-5)


@every_kind
def test_its_heads_are_looked_at(kind, folder_of):
    folder = folder_of(kind)
    view = TextReader.load(folder).view("the small dog")
    other = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer("the small dog", return_tensors="pt")
    with torch.no_grad():
        weights = other(**encoded, output_attentions=True).attentions
    assert list(view.maps[0].query_tokens) == tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    for item, wanted in zip(view.maps, weights, strict=True):
        assert torch.as_tensor(item.weights).reshape(wanted[0].shape).sub(wanted[0]).abs().max() < 1e-6


@every_kind
def test_a_folder_of_sentence_transformers_gives_its_vectors(kind, folder_of, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    reader = parts.Transformer(str(folder_of(kind, "Model")))
    written = library.SentenceTransformer(modules=[reader, parts.Pooling(18, pooling_mode="mean")])
    written.save(str(tmp_path / "theirs"), create_model_card=False)  # for a card it asks the hub
    theirs = library.SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
    texts = ["the small dog barks", "Paris", "naïve café, isn't it so?"]
    wanted = torch.as_tensor(theirs.encode(texts))
    ours = regard.load(tmp_path / "theirs")
    ours.save(tmp_path / "ours")
    for place in ("theirs", "ours"):
        found = torch.as_tensor(regard.load(tmp_path / place).embed(texts))
        assert (found / found.norm(dim=1, keepdim=True) - wanted / wanted.norm(dim=1, keepdim=True)).abs().max() < 1e-5
    again = torch.as_tensor(library.SentenceTransformer(str(tmp_path / "ours"), device="cpu").encode(texts))
    assert (again / again.norm(dim=1, keepdim=True) - wanted / wanted.norm(dim=1, keepdim=True)).abs().max() < 1e-5
