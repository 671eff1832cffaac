"""How good predictions are: classes, numbers, answers and spans against the right ones, as the official scripts count them."""
