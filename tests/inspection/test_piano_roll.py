from __future__ import annotations

import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba

from regard.data.notes import Note, Piece
from regard.errors import InputError
from regard.inspection.drawings import AFTER, BEFORE, roll, save_roll

PIECE = Piece.of([Note(0, 1, 60, 100), Note(1, 3, 64, 100), Note(3, 4, 67, 100, voice=1)])


def bars(figure):
    (notes,) = (part for part in figure.axes[0].collections if isinstance(part, PolyCollection))
    found = []
    for path, colour in zip(notes.get_paths(), notes.get_facecolors(), strict=True):
        x, y = path.vertices[:, 0], path.vertices[:, 1]
        found.append((x.min(), x.max(), round((y.min() + y.max()) / 2), tuple(colour)))
    return found


def test_a_bar_for_each_note_and_the_continuation_in_its_own_colour():
    assert [bar[:3] for bar in bars(roll(PIECE))] == [(0, 1, 60), (1, 3, 64), (3, 4, 67)]
    drawn = bars(roll(PIECE, border=2.0))
    before, after, other = to_rgba(BEFORE[0]), to_rgba(AFTER[0]), to_rgba(AFTER[1])
    assert drawn == [(0, 1, 60, before), (1, 2, 64, before), (2, 3, 64, after), (3, 4, 67, other)]


def test_plots_say_what_is_prompt_and_what_is_continuation(tmp_path):
    for name, border, said in (("a.svg", 2.0, True), ("b.svg", None, False)):
        save_roll(PIECE, tmp_path / name, border=border, title="a piece")
        text = (tmp_path / name).read_text()
        assert "<!-- a piece -->" in text
        assert all(
            (f"<!--  {word} -->" in text or f"<!-- {word}  -->" in text) == said for word in ("prompt", "continuation")
        )
    save_roll(PIECE, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_told(tmp_path):
    with pytest.raises(InputError, match=r"give a \.png or \.svg"):
        save_roll(PIECE, tmp_path / "a.pdf")
    with pytest.raises(InputError, match="no note to draw"):
        save_roll(Piece.of([]), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
