"""The model card: the README.md of a model's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regard.models.config import ModelConfig, config_to_json


def model_card(
    config: ModelConfig, task: Mapping[str, Any], recipe: Mapping[str, Any], metrics: Mapping[str, float]
) -> str:
    """What a stranger who finds the folder needs to know, in Markdown."""
    lines = [
        "---",
        "library_name: regard",
        f"tags: [{task['name']}, {config.model_type}]",
        "---",
        "",
        f"# {config.model_type} for {task['name']}",
        "",
        "Trained with [Regard](https://pypi.org/project/regard/). Use it:",
        "",
        "```python",
        "import regard",
        "",
        'model = regard.load(".")  # this folder',
        'print(model.translate("...").text)',
        "```",
        "",
    ]
    if metrics:
        lines += ["| metric | value |", "|---|---|"]
        lines += [f"| {name} | {value:.4g} |" for name, value in metrics.items()]
        lines.append("")
    lines += ["## Sizes", "", "```json", json.dumps(config_to_json(config), indent=2), "```", ""]
    if recipe:
        lines += [
            "## Recipe",
            "",
            "```json",
            json.dumps(dict(recipe), indent=2, ensure_ascii=False),
            "```",
            "",
        ]
    return "\n".join(lines)
