"""gensim: skip-gram and CBoW by `Word2Vec`, from sentences that Python reads, or from a file that gensim reads itself.

Needs gensim, but not Regard.
"""

from __future__ import annotations

import time
from typing import Any

from .shared import Installed


class Word2Vec(Installed):
    """Training word embeddings on a file of sentences."""

    needs = ("gensim", "numpy")
    skip_gram = 1

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Import it."""
        from gensim.models.word2vec import FAST_VERSION

        self._job = job
        return {"note": f"fast version {FAST_VERSION}, reads {job['reading']}"}

    def run(self) -> dict[str, Any]:
        """Run the whole training, including the vocabulary; the amount is in words read, over all epochs."""
        from gensim.models import Word2Vec as Model
        from gensim.models.word2vec import LineSentence

        job = self._job
        began = time.perf_counter()
        # word2vec starts from a learning rate of 0.05 for CBoW; in gensim the user has to set it.
        rate = 0.025 if self.skip_gram else 0.05
        whole = job["reading"] == "file"
        model = Model(
            sentences=None if whole else LineSentence(job["text"]),
            corpus_file=job["text"] if whole else None,
            vector_size=job["width"],
            window=job["window"],
            min_count=job["minimum_count"],
            epochs=job["epochs"],
            negative=job["negative"],
            alpha=rate,
            workers=job["threads"],
            sg=self.skip_gram,
            seed=job["seed"],
        )
        seconds = time.perf_counter() - began
        model.wv.save_word2vec_format(job["vectors"])
        return {"amount": job["tokens"] * job["epochs"], "seconds": seconds}


class ContinuousBag(Word2Vec):
    """CBoW."""

    skip_gram = 0


KINDS = {"skipgram": Word2Vec, "cbow": ContinuousBag}
