"""The recording of the studio that the README shows can be made again, by the script that stands beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_recording_is_made_by_using_the_page(tmp_path):
    script, made = ROOT / "docs" / "images" / "record_studio.py", tmp_path / "studio.webp"
    subprocess.run([sys.executable, script, "--out", made], check=True, timeout=600)
    for path in (made, script.with_name("studio.webp")):
        with Image.open(path) as film:
            shown, milliseconds = [], 0
            for number in range(film.n_frames):
                film.seek(number)
                film.load()
                milliseconds += film.info["duration"]
                shown.append(film.convert("RGB").tobytes())
        assert 15_000 <= milliseconds <= 25_000
        assert len(set(shown)) >= 30
        assert path.stat().st_size < 1_500_000
