"""Tasks for a language model as text, without training: templates, in-context examples, answers by likelihood."""

from regard.old_names import add_old_modules, old_attributes
from regard.prompting.evaluation import SCORES, Prompted, PromptedAnswer, evaluate_prompts
from regard.prompting.examples import Example, Shots, read_examples
from regard.prompting.template import BuiltPrompt, Template, build_prompt, read_template, templates

__all__ = [
    "SCORES",
    "BuiltPrompt",
    "Example",
    "Prompted",
    "PromptedAnswer",
    "Shots",
    "Template",
    "build_prompt",
    "evaluate_prompts",
    "read_examples",
    "read_template",
    "templates",
]

__getattr__ = old_attributes(__name__, {"Posed": "BuiltPrompt", "ask": "evaluate_prompts", "posed": "build_prompt"})
add_old_modules(
    __name__,
    {
        "asking": "regard.prompting.evaluation",
        "likelihood": "regard.prompting.evaluation",
        "prompts": "regard.prompting.template",
    },
)
