"""Reading files and hub datasets, builtin data, memory-mapped tokens, batches by token count."""
