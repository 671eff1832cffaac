"""Tokenizers: strings to token ids and back."""

from regard.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
