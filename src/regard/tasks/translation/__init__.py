"""Translation: strings in one language to strings in another, or any other pairs of sequences."""
