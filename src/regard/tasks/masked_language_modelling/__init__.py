"""Masked language modelling: texts in of which some tokens are hidden; which tokens those are out (Devlin et al. 2019)."""
