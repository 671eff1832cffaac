"""A tag for each word of a text: named entities, parts of speech, chunks."""
