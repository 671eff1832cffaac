"""Tasks put to a language model as text, without training it for them: templates, examples shown, answers by likelihood."""

from regard.prompting.asking import SCORES, Prompted, PromptedAnswer, ask
from regard.prompting.examples import Example, Shots, read_examples
from regard.prompting.template import Posed, Template, posed, read_template, templates

__all__ = [
    "SCORES",
    "Example",
    "Posed",
    "Prompted",
    "PromptedAnswer",
    "Shots",
    "Template",
    "ask",
    "posed",
    "read_examples",
    "read_template",
    "templates",
]
