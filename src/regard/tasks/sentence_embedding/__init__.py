"""One vector for each text, so that texts alike have vectors alike."""
