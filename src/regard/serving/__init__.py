"""`regard serve`: models behind OpenAI's API, by continuous batching, with the same bits under any load (extra `serve`)."""
