"""Tokenizers: strings to token ids and back."""

from regard.text.config_file import tokenizer_config
from regard.text.roles import INPUT_TOKENS
from regard.text.tokenizer import Tokenizer

__all__ = ["INPUT_TOKENS", "Tokenizer", "tokenizer_config"]
