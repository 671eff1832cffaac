"""Files of word vectors, one module a format."""
