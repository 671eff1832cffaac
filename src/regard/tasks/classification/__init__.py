"""Classes and numbers of whole texts, and of pairs of texts."""
