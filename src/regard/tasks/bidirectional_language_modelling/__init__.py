"""Bidirectional language modelling (Peters et al. 2018): each word from those before it, and from those after it."""
