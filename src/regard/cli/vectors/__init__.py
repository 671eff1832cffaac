"""`regard vectors`: word embeddings."""

from __future__ import annotations

import typer

from regard.cli.commands import commands, with_code
from regard.cli.vectors.bias import bias, debias
from regard.cli.vectors.evaluation import analogy, doesnt_match, evaluate, neighbours, survey
from regard.cli.vectors.training import convert, extract, train

vectors = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Word embeddings: train, query, evaluate, audit and debias them.

    The format of a file is detected from its content: word2vec text and binary, GloVe, fastText .vec and .bin, gzipped or
        not.

    \b
    Example:
      regard vectors train wiki.txt -o skipgram
      regard vectors neighbours skipgram king
      regard vectors analogy skipgram man king woman
      regard vectors evaluate skipgram glove.txt --similarity sets/ -o report.html
      regard vectors bias skipgram --weat weat7.jsonl --json
    """,
)

for _command in (train, extract, neighbours, analogy, doesnt_match, evaluate, bias, debias, convert):
    vectors.command()(with_code(_command) if _command in (extract, bias) else _command)
vectors.add_typer(survey, name="survey", cls=commands(make="create"))
