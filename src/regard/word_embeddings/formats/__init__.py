"""File formats of word embeddings, one module per format."""
