"""What is asked of a model, and how its answers are judged: beside likelihoods summed in the test."""

from __future__ import annotations

import math

import pytest

from regard.errors import InputError
from regard.prompting import SCORES, Example, Shots, Template, build_prompt, evaluate_prompts, read_template

CHOICES = [
    Example({"context": "the cat sat on", "choices": ["the mat.", "a hill", "rain"], "answer": 0}, "c, line 1"),
    Example({"context": "a dog ran", "choices": ["over the hill and the plain.", "on"], "answer": "on"}, "c, line 2"),
    Example({"context": "rain falls", "choices": ["on the plain", "the", "a cat and a dog"], "answer": 2}, "c, line 3"),
]
TRAIN = [Example({"context": "rain sat", "choices": ["on the dog", "over"], "answer": n % 2, "n": n}) for n in range(5)]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_choices_by_every_score(built, plainly, name, score):
    model, template = built(name), read_template("choice")
    found = evaluate_prompts(model, template, CHOICES, score=score, batch_size=2)
    right = 0
    for example, answer in zip(CHOICES, found.answers, strict=True):
        expected = []
        for choice in example.fields["choices"]:
            logs = plainly(model, example.fields["context"], f" {choice}")
            expected.append(
                {
                    "sum": sum(logs),
                    "token": sum(logs) / len(logs),
                    "character": sum(logs) / (len(choice) + 1),
                    "byte": sum(logs) / (len(choice) + 1),
                    "unconditional": sum(logs) - sum(plainly(model, "Answer:", f" {choice}")),
                }[score]
            )
        assert answer.scores == pytest.approx(expected, abs=1e-4)
        best = expected.index(max(expected))
        assert answer.answer == example.fields["choices"][best]
        assert answer.correct == (answer.answer in answer.right)
        right += answer.correct
    assert found.metrics["accuracy"] == right / 3
    assert found.metrics["chance"] == pytest.approx((1 / 3 + 1 / 2 + 1 / 3) / 3)
    assert (found.count, found.shots) == (3, 0)
    assert found.prompt == "the cat sat on"


@pytest.mark.parametrize("draw", ["once", "each"])
def test_examples_shown_stand_before_with_their_answers(built, plainly, draw):
    model = built()
    template = Template(task="choice", question="{context}", instruction="Q:", separator="\n", right="answer")
    shots = Shots(train=TRAIN, count=2, seed=3, sample=draw)
    found = evaluate_prompts(model, template, CHOICES, shots=shots)
    for place, (example, answer) in enumerate(zip(CHOICES, found.answers, strict=True)):
        shown = [build_prompt(template, each).shown for each in shots.of(place, example)]
        prompt = "\n".join(["Q:", *shown, example.fields["context"]])
        if place == 0:
            assert found.prompt == prompt
        expected = [sum(plainly(model, prompt, f" {choice}")) for choice in example.fields["choices"]]
        assert answer.scores == pytest.approx(expected, abs=1e-4)
    assert found.shots == 2


def test_the_last_word_and_its_perplexity(built, plainly):
    model = built()
    texts = ["the cat sat on the mat.", "a dog ran over the hill"]
    likely = model.generate(texts[0]).tokens  # what the model would write, up to the end of a word
    word = model.task.tokenizer.decode([model.task.tokenizer.find(likely[0])]).strip()
    examples = [Example({"text": text}) for text in (*texts, *([f"{texts[0]} {word}"] if word else []))]
    found = evaluate_prompts(model, read_template("last-word"), examples)
    logs = [sum(plainly(model, *_parted(example.fields["text"]))) for example in examples]
    assert [each.scores[0] for each in found.answers] == pytest.approx(logs, abs=1e-4)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(-sum(logs) / len(logs)), rel=1e-4)
    assert found.metrics["accuracy"] == sum(each.correct for each in found.answers) / len(examples)


def _parted(text: str) -> tuple[str, str]:
    before, word = text.rsplit(" ", 1)
    return before, f" {word}"


def test_a_cloze_is_right_where_the_model_would_write_it(built):
    model = built(kind="character")
    template = Template(task="cloze", question="{q}", answer="{answer}", right="a")
    wrote = model.generate("the cat").text[:3]
    assert len(wrote) == 3
    found = evaluate_prompts(
        model, template, [Example({"q": "the cat", "a": wrote}), Example({"q": "the cat", "a": "zzq"})]
    )
    assert [each.correct for each in found.answers] == [True, False]


def test_answers_are_written_up_to_the_stop_and_judged_as_for_squad(built):
    model = built(kind="character")
    template = Template(task="answer", question="{q}", stop=("t",), maximum_length=9)
    wrote = model.generate(["the cat", "rain"], stop=["t"]).copy()
    texts = [each.text.strip() for each in wrote]
    examples = [
        Example({"q": "the cat", "answer": ["nothing", f"The {texts[0][:9].upper()}!"]}),
        Example({"q": "rain", "answer": "never"}),
    ]
    found = evaluate_prompts(model, template, examples)
    assert found.answers[1].answer == model.generate("rain", stop=["t"]).text[:9].strip()
    assert found.metrics["exact_match"] == sum(each.correct for each in found.answers) / 2
    assert set(found.metrics) == {"exact_match", "f1"}


def test_translations_are_judged_by_bleu(built):
    pytest.importorskip("sacrebleu")
    model = built(kind="character")
    template = Template(task="translation", question="{s} =", right="t", separator="\n", maximum_length=12)
    wrote = model.generate("a dog =", stop=["\n"]).text
    found = evaluate_prompts(model, template, [Example({"s": "a dog", "t": wrote[:12].strip() or "x"})])
    assert found.metrics["bleu"] >= 0
    assert "bleu" in found.signatures
    shown = evaluate_prompts(
        model,
        template,
        [Example({"s": "a dog", "t": "ein Hund"})],
        shots=Shots(train=[Example({"s": "a cat", "t": "eine Katze"})], count=1),
    )
    assert shown.prompt == "a cat = eine Katze\na dog ="


def test_a_prompt_that_does_not_fit_says_how_many_shots_do(built):
    template = Template(task="choice", question="{context}", separator="\n")
    model = built(positions=40)
    with pytest.raises(
        InputError, match=r"c, line \d: with 5 shots the prompt takes \d+ tokens.* for 40; give at most (\d)"
    ) as error:
        evaluate_prompts(model, template, CHOICES, shots=Shots(train=TRAIN, count=5))
    most = int(str(error.value).split("at most ")[1][0])
    assert 0 < most < 5
    evaluate_prompts(model, template, CHOICES, shots=Shots(train=TRAIN, count=most))
    with pytest.raises(InputError, match="give at most"):
        evaluate_prompts(model, template, CHOICES, shots=Shots(train=TRAIN, count=most + 1))
    with pytest.raises(InputError, match=r"c, line 1: the prompt takes .* not every question fits even without shots"):
        evaluate_prompts(built(positions=4), template, CHOICES)
    writing = Template(task="answer", question="{context}", maximum_length=39, right="context")
    with pytest.raises(InputError, match="the model has positions for 40"):
        evaluate_prompts(model, writing, CHOICES)


def test_every_position_can_be_used(built, plainly):
    """The last token is told and takes no position: a text as long as the model is fits."""
    model = built(kind="character", positions=20)
    template = Template(task="cloze", question="{q}", answer="{answer}")
    found = evaluate_prompts(
        model, template, [Example({"q": "the cat sat on the", "answer": "re"})]
    )  # 18 + 2, and the end before
    assert found.answers[0].scores[0] == pytest.approx(sum(plainly(model, "the cat sat on the", "re")), abs=1e-4)
    with pytest.raises(InputError, match="the prompt takes 21"):
        evaluate_prompts(model, template, [Example({"q": "the cat sat on the", "answer": "res"})])


@pytest.mark.parametrize(
    ("examples", "options", "message"),
    [
        ([], {}, "there are no examples"),
        (CHOICES, {"score": "bytes"}, "there is no score 'bytes'; did you mean 'byte'"),
    ],
)
def test_what_cannot_be_asked(built, examples, options, message):
    with pytest.raises(InputError, match=message):
        evaluate_prompts(built(), read_template("choice"), examples, **options)
    with pytest.raises(InputError, match="score is byte, which compares choices"):
        evaluate_prompts(built(), read_template("last-word"), [Example({"text": "a b"})], score="byte")
