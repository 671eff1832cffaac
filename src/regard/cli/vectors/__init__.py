"""`regard vectors`: vectors of words at the command line."""
