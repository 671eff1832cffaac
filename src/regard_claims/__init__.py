"""The catalogue of the papers' claims: one folder a claim, run and judged by `regard.claims`.

A folder is called like its claim, with `_` for `-`. It holds `claim.yaml` and, where no model is trained by a recipe, the module
of its experiment, which claims of other folders may name too. What several experiments share is in `regard_claims.shared`.

Nothing is imported here: a list of the claims is read from their YAML, and an experiment is imported when its claim is run.
"""
