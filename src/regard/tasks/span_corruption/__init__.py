"""Span corruption: spans taken out of texts, to be written by a model that reads the rest."""
