"""Language modelling: texts in; how probable each token is after those before it out."""
