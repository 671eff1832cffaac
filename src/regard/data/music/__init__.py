"""Music: notes, MIDI files and files of chorales, and the words that a language model reads them as."""

from regard.data.music.grid import Grid
from regard.data.music.piece import Note, Piece
from regard.data.music.reading import read_pieces
from regard.data.music.writing import Writing

__all__ = ["Grid", "Note", "Piece", "Writing", "read_pieces"]
