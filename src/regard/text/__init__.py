"""Tokenizers: strings to token ids and back."""

from regard.text.config_file import tokenizer_config
from regard.text.tokenizer import Tokenizer

__all__ = ["Tokenizer", "tokenizer_config"]
