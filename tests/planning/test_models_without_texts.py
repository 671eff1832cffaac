"""`regard plan` of what reads no texts is refused in a sentence, not answered with a number that means nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import InputError
from regard.planning.reading import Asked, recipe_work
from regard.training import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("name", ["copying.yaml", "digits-few-shot.yaml", "digits.yaml"])
def test_a_recipe_without_texts_is_refused(name):
    with pytest.raises(InputError, match="plans count the tokens of texts"):
        recipe_work(read_recipe(RECIPES / name), Asked(), count=1, read=True)
