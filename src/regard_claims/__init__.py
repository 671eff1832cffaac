"""The catalogue of claims from papers: one folder for each claim. `regard.claims` runs and judges them.

A folder has the claim's name with `_` for `-`. It contains `claim.yaml` and, if the claim is not tested by training a recipe, the
module of its experiment; claims in other folders may use the same experiment. Functions shared by several experiments are in
`regard_claims.shared`.

Nothing is imported here: the list of claims is read from the YAML files, and an experiment is imported when its claim is run.
"""
