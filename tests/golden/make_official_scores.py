"""Makes official_scores.json: what the official evaluation scripts say of questions and tags that this file makes up.

    python tests/golden/make_official_scores.py FOLDER

FOLDER holds the scripts, which are not ours to keep here: `evaluate-v1.1.py` and `evaluate-v2.0.py` of SQuAD
(https://rajpurkar.github.io/SQuAD-explorer/) and `conlleval.pl` of the CoNLL shared tasks
(https://www.clips.uantwerpen.be/conll2000/chunking/output.html), which needs Perl.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("official_scores.json")
CONLLEVAL = {"conlleval": 120, "conlleval_short": 4}  # sentences
WORDS = [
    "the",
    "The",
    "a",
    "an",
    "AN",
    "Eiffel",
    "Tower",
    "apple's",
    "core,",
    "in",
    "1889",
    "(built)",
    "by",
    "“Gustave”",
]
WORDS += [
    "the-great",
    "state-of-the-art",
    "Œuvre",
    "N.Y.C.",
    "$5.00",
    "naïve",
    "",
    "été",
    "—",
    "_low_",
    "3rd",
    "theatre",
]
WORDS += ["another", "İstanbul", "ΑΣ"]
TYPES = ("PER", "LOC", "creative-work")


class Draw:
    """Numbers that look random and are the same everywhere: Knuth's multiplier, the upper bits."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        """A number from 0 up to `bound`, without it."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self._state >> 33) % bound

    def of(self, choices: Sequence[Any]) -> Any:
        """One of `choices`."""
        return choices[self.below(len(choices))]

    def words(self, least: int, most: int) -> str:
        """Some words with single spaces between."""
        return " ".join(self.of(WORDS) for _ in range(least + self.below(most - least + 1)))


def answers(impossible: bool) -> dict[str, list[str]]:
    """The right answers to 200 questions by id; where some are impossible, none to a third of them."""
    draw = Draw(1)
    made = {}
    for number in range(200):
        made[f"q{number}"] = [draw.words(1, 4) for _ in range(1 + draw.below(3))]
        if impossible and draw.below(3) == 0:
            made[f"q{number}"] = []
        elif impossible and draw.below(10) == 0:  # of which normalising leaves nothing
            made[f"q{number}"] = ["The", "a."][: 1 + draw.below(2)]
    return made


def predictions(right: dict[str, list[str]], some_missing: bool) -> dict[str, str]:
    """Something between right and wrong for each question."""
    draw = Draw(2)
    made = {}
    for id, texts in right.items():
        if some_missing and draw.below(20) == 0:
            continue
        answer = draw.of(texts) if texts else draw.words(1, 2)
        made[id] = draw.of(
            [
                answer,
                f"The {answer.upper()}!",
                f"{answer} {draw.words(1, 2)}",
                answer.split(" ")[0],
                draw.words(1, 3),
                "",
                " an ",
            ]
        )
    return made


def no_answer(right: dict[str, list[str]]) -> dict[str, float]:
    """How likely each question is to have no answer, with many numbers alike."""
    draw = Draw(3)
    made = {id: (draw.below(70) + (0 if texts else 30)) / 100 for id, texts in right.items()}
    return {id: made[id] for id in sorted(made, key=lambda id: id[::-1])}  # in another order than the questions


def bio_tags(seed: int, sentences: int) -> list[list[str]]:
    """Tags of some sentences, many of them breaking every rule."""
    draw = Draw(seed)
    every = ["O", *(f"{mark}-{type}" for mark in "BI" for type in TYPES)]
    return [[draw.of(every) for _ in range(1 + draw.below(12))] for _ in range(sentences)]


def guessed(tags: list[list[str]], seed: int) -> list[list[str]]:
    """The same tags, one in three drawn anew."""
    draw = Draw(seed)
    every = sorted({tag for sentence in tags for tag in sentence})
    return [[draw.of(every) if draw.below(3) == 0 else tag for tag in sentence] for sentence in tags]


def squad(right: dict[str, list[str]]) -> dict[str, Any]:
    """The questions in the official form; each answer is a context's beginning."""
    questions = [
        {"id": id, "question": "?", "answers": [{"text": text, "answer_start": 0} for text in texts]}
        for id, texts in right.items()
    ]
    return {"version": "1.1", "data": [{"title": "", "paragraphs": [{"context": "", "qas": questions}]}]}


def conlleval_input(gold: list[list[str]], guess: list[list[str]]) -> str:
    """Word, right tag and predicted tag in each line, an empty line after each sentence."""
    sentences = (
        "".join(f"w {tag} {said}\n" for tag, said in zip(*both, strict=True)) for both in zip(gold, guess, strict=True)
    )
    return "\n".join([*sentences, ""])


def run(command: list[str], text: str = "") -> str:
    """What a command prints."""
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write the file."""
    scripts = Path(sys.argv[1])
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def file(name: str, content: object) -> str:
            path = folder / name
            path.write_text(json.dumps(content))
            return str(path)

        right = answers(impossible=False)
        both = [file("1.json", squad(right)), file("p1.json", predictions(right, some_missing=True))]
        found["squad1"] = json.loads(run([sys.executable, str(scripts / "evaluate-v1.1.py"), *both]))
        right = answers(impossible=True)
        both = [file("2.json", squad(right)), file("p2.json", predictions(right, some_missing=False))]
        command = [sys.executable, str(scripts / "evaluate-v2.0.py"), *both]
        found["squad2"] = json.loads(run(command))
        odds = ["--na-prob-file", file("n.json", no_answer(right)), "--na-prob-thresh", "0.6"]
        found["squad2_with_probabilities"] = json.loads(run([*command, *odds]))
    for name, sentences in CONLLEVAL.items():
        gold = bio_tags(4, sentences)
        found[name] = run(["perl", str(scripts / "conlleval.pl")], conlleval_input(gold, guessed(gold, 5))).splitlines()
    FILE.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
