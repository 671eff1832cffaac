"""Tokenizers: strings to token ids and back."""

from regard.text.files import tokenizer_config
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import INPUT_TOKENS

__all__ = ["INPUT_TOKENS", "Tokenizer", "tokenizer_config"]
