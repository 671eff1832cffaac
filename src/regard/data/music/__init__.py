"""Music: notes, MIDI files and files of chorales, and the words that a language model reads them as."""

from regard.data.music.events import Grid, Note, Piece
from regard.data.music.files import Writing, read_pieces

__all__ = ["Grid", "Note", "Piece", "Writing", "read_pieces"]
