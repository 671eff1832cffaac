"""GloVe's own programs in C, https://github.com/stanfordnlp/GloVe, found on the PATH after they were built with `make`.

Needs nothing of Regard.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("vocab_count", "cooccur", "shuffle", "glove")


class GloVe:
    """Training word embeddings on a file of sentences: count words, count pairs, shuffle, train."""

    def available(self) -> bool:
        """Whether all four programs are on the PATH."""
        return all(map(shutil.which, PROGRAMS))

    def versions(self) -> dict[str, str]:
        """The programs have no version: the SHA-256 of the one that trains."""
        program = shutil.which("glove") or ""
        return {"glove, SHA-256 of the program": hashlib.sha256(Path(program).read_bytes()).hexdigest()[:12]}

    def prepare(self, job: dict[str, Any]) -> dict[str, str]:
        """Keep the job; there is nothing to prepare."""
        self._job = job
        return {"note": "its own settings but those of the case; memory 4 GB"}

    def run(self) -> dict[str, Any]:
        """Run all four programs; the amount is in words times epochs, although only the first pass reads words."""
        job = self._job
        with tempfile.TemporaryDirectory(prefix="regard-bench-glove-") as place:
            began = time.perf_counter()
            self._do(place, ["vocab_count", "-min-count", job["minimum_count"]], job["text"], "words")
            counting = ["cooccur", "-vocab-file", "words", "-window-size", job["window"], "-memory", "4.0"]
            self._do(place, counting, job["text"], "pairs")
            counted = time.perf_counter()
            self._do(place, ["shuffle", "-memory", "4.0", "-seed", job["seed"]], "pairs", "shuffled")
            settings = {
                "-vector-size": job["width"],
                "-iter": job["epochs"],
                "-x-max": job["largest_count"],
                "-threads": job["threads"],
                "-seed": job["seed"],
                "-binary": 0,
                "-input-file": "shuffled",
                "-vocab-file": "words",
                "-save-file": "vectors",
            }
            self._do(place, ["glove", *(part for pair in settings.items() for part in pair)], os.devnull, "output")
            seconds = time.perf_counter() - began
            shutil.copy(Path(place, "vectors.txt"), job["vectors"])
        return {
            "amount": job["tokens"] * job["epochs"],
            "seconds": seconds,
            "measures": {"counting, s": counted - began},
        }

    def _do(self, place: str, command: list[Any], source: str, target: str) -> None:
        # Paths are absolute or relative to the folder.
        with open(Path(place, source), "rb") as given, open(Path(place, target), "wb") as written:
            subprocess.run(
                [*map(str, command), "-verbose", "0"],
                stdin=given,
                stdout=written,
                cwd=place,
                check=True,
            )


KINDS = {"glove": GloVe}
