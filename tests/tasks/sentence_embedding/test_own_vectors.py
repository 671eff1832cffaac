"""Models that make the vector of a text themselves: trained, saved, asked, and compared by the angle."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import regard
from regard.data.synthetic_texts import RoleTriples
from regard.embeddings.pooling import angular
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder, evaluate_sentences
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer

TRIPLES = [tuple(triple) for triple in RoleTriples("train", size=60)]
MODELS = {
    "use_transformer": {"width": 12, "heads": 3, "feedforward_width": 16, "layers": 1},
    "use_averaging": {"width": 12, "bigrams": 50, "feedforward_layers": 2},
    "infersent": {"embedding_width": 7, "hidden_width": 6},
    "han": {"embedding_width": 7, "hidden_width": 6},
}


def recipe(name: str, **data) -> dict:
    return {
        "task": "sentence_embedding",
        "model": {"name": name, **MODELS[name]},
        "tokenizer": {"kind": "word", "size": 200},
        "data": data,
        "training": {"steps": 2, "batch_tokens": 300, "learning_rate": 1e-3, "warmup": 1, "precision": "float32"},
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("objective", ["ranking", "triplet"])
def test_every_family_learns_is_saved_and_gives_its_own_vectors(name, objective, tmp_path):
    run = regard.train(recipe(name, objective=objective, negative="third"), output=tmp_path / "run", data=TRIPLES)
    encoder = run.load()
    assert encoder.task.pooling == ("pooler",)
    texts = [triple[0] for triple in TRIPLES[:5]]
    found = encoder.embed(texts)
    assert found.shape == (5, encoder.width) == (5, 12)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    tokens = Tokens.pad(encoder.task.encode(texts, maximum=128), padding_id=encoder.task.tokenizer.padding_id)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(encoder.model(tokens).pooled, dim=-1).numpy()
    assert found == pytest.approx(expected, abs=1e-5)
    encoder.save(tmp_path / "copy")
    assert not (tmp_path / "copy" / "modules.json").exists()
    assert (regard.load(tmp_path / "copy").embed(texts) == found).all()
    assert set(evaluate_sentences(encoder, TRIPLES).metrics) == {"accuracy"}


def test_what_was_learnt_on_pairs_is_the_vector_of_one_text(tmp_path):
    data = [((one, other), "same" if number % 2 else "not") for number, (one, other, _) in enumerate(TRIPLES)]
    run = regard.train({**recipe("infersent"), "task": "classification"}, output=tmp_path / "run", data=data)
    classifier = run.load()
    assert classifier.model.config.texts == 2
    encoder = regard.load(tmp_path / "run", task="sentence_embedding")
    u, v = (torch.from_numpy(row) for row in encoder.embed(list(TRIPLES[0][:2])))
    compared = torch.cat([u, v, (u - v).abs(), u * v])
    with torch.no_grad():
        told = classifier.model.head(None, compared[None], None).logits.softmax(dim=-1)[0].tolist()
    said = classifier.classify(TRIPLES[0][:2])
    assert [said.probabilities[name] for name in classifier.task.classes] == pytest.approx(told, abs=1e-5)


def test_token_vectors_and_poolings_of_a_recurrent_encoder(tmp_path):
    encoder = regard.train(recipe("infersent"), output=tmp_path / "run", data=[t[:2] for t in TRIPLES]).load()
    assert encoder.features(["the dog sees"])[0].array.shape == (3, 12)
    assert encoder.features(["the dog sees"], layers="embeddings")[0].array.shape == (3, 7)
    by_mean = encoder.pooled(["mean"])
    assert by_mean.embed(["the dog"]).shape == (1, 12)
    assert by_mean.embed(["the dog"], layers="embeddings").shape == (1, 7)
    with pytest.raises(InputError, match="last layer"):
        encoder.embed(["the dog"], layers="embeddings")
    with pytest.raises(InputError, match="different widths"):
        by_mean.embed(["the dog"], layers=[0, 1])
    with pytest.raises(InputError, match="cannot be combined"):
        encoder.pooled(["pooler", "mean"])


def test_berts_pooler_is_such_a_vector_and_a_model_without_one_says_so(seeded):
    tokenizer = Tokenizer.train(["the dog sees the king"], kind="bert", size=60)
    task = SentenceEmbeddingTask(tokenizer=tokenizer, maximum_length=12, normalise=False)
    sizes = {"width": 8, "heads": 2, "feedforward_width": 8, "layers": 1, "maximum_positions": 12}
    bert = Bert(BertConfig(**sizes, **task.model_settings()))
    encoder = SentenceEncoder(bert, task).pooled(["pooler"])
    with torch.no_grad():
        expected = bert(Tokens.pad(task.encode(["the dog"], maximum=12))).pooled.numpy()
    assert encoder.embed(["the dog"]) == pytest.approx(expected, abs=1e-6)
    bare = Bert(BertConfig(**sizes, pooler=False, **task.model_settings()))
    with pytest.raises(InputError, match="no vector of a whole text"):
        SentenceEncoder(bare, task).pooled(["pooler"])


def test_the_angular_similarity_is_one_minus_the_angle_in_half_turns(tmp_path):
    angles = np.linspace(0, math.pi, 13)
    assert angular(np.cos(angles).astype(np.float32)) == pytest.approx(1 - angles / math.pi, abs=2e-4)
    assert angular(np.array([1.0000001, -1.0000001], dtype=np.float32)).tolist() == [1.0, 0.0]
    encoder = regard.train(recipe("use_averaging"), output=tmp_path / "run", data=[t[:2] for t in TRIPLES]).load()
    texts = [triple[0] for triple in TRIPLES[:4]]
    cosines = encoder.similarity(texts, texts)
    assert encoder.similarity(texts, texts, measure="angular") == pytest.approx(angular(cosines))
    with pytest.raises(InputError, match="angular"):
        encoder.similarity(texts, texts, measure="anguler")  # type: ignore[arg-type]
