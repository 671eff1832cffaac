"""`regard serve`: models behind OpenAI's API, with continuous batching; answers are bit for bit the same under any load."""
