"""The points of texts over HTTP are those that Python lays out of the same model's vectors."""

from __future__ import annotations

import itertools
import json
import struct
import zlib

import numpy as np
import pytest
from tests.serving.test_attention import InProcess, language_model
from tests.serving.test_studio import asked
from tests.serving.test_tasks import sentence_encoder

from regard.embeddings.map_page import about
from regard.embeddings.vector_map import map_vectors
from regard.serving.maps import MOST_TEXTS

TEXTS = ["cat", "a mat", "the cat sat", "sat on"]


def test_points_are_pythons(randomize):
    encoder = sentence_encoder(randomize)
    body = {"model": "m", "texts": TEXTS, "classes": ["1.5", "2", "", "3"], "neighbours": 2}
    answer = asked(InProcess(m=encoder), "POST", "/studio/map/points", json=body)
    assert answer.status_code == 200, answer.text
    (length,) = struct.unpack("<I", answer.content[:4])
    head = json.loads(answer.content[4 : 4 + length])
    ends = np.cumsum([4 + length, *head["lengths"]])
    assert ends[-1] == len(answer.content)
    parts = [zlib.decompress(answer.content[start:end]) for start, end in itertools.pairwise(ends)]
    wanted = map_vectors(encoder.embed(TEXTS), TEXTS, neighbours=2, title="m")
    planes = np.frombuffer(parts[0], dtype=np.uint8).reshape(4, -1)
    points = np.ascontiguousarray(planes.T).view("<f4").reshape(2, -1).T
    np.testing.assert_allclose(points, wanted.points, atol=1e-4)
    assert json.loads(parts[1]) == TEXTS
    assert head["columns"][0]["kind"] == "number"
    assert (head["title"], head["count"], head["neighbours"], head["about"]) == ("m", 4, 2, about(wanted))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"model": "m", "texts": []}, "texts"),
        ({"model": "m", "texts": ["a", ""]}, "texts"),
        ({"model": "m", "texts": ["a"] * (MOST_TEXTS + 1)}, "texts"),
        ({"model": "m", "texts": ["a"], "classes": ["b", "c"]}, "1 texts and 2 classes"),
        ({"model": "lm", "texts": ["a"]}, "computes no text embeddings"),
        ({"model": "n", "texts": ["a"]}, "no model 'n'"),
    ],
)
def test_what_makes_no_map_is_refused(randomize, body, said):
    link = InProcess(m=sentence_encoder(randomize), lm=language_model(randomize))
    answer = asked(link, "POST", "/studio/map/points", json=body)
    assert answer.status_code in (400, 404)
    assert said in answer.json()["error"]["message"]


def test_the_page_needs_no_key_and_the_points_do(randomize):
    link = InProcess(m=sentence_encoder(randomize))
    assert 'src="/static/pages/studio-map.js"' in asked(link, "GET", "/studio/map", keys=("k",)).text
    assert (
        asked(link, "POST", "/studio/map/points", keys=("k",), json={"model": "m", "texts": ["a"]}).status_code == 401
    )
    assert 'href="studio/map"' in asked(link, "GET", "/studio").text
