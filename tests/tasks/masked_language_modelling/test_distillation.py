"""Distillation: the triple loss against a plain one, the teacher left as it was, and what a student and teacher must share."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.checkpoints import parameters_of
from regard.errors import InputError
from regard.tasks.distillation import Teacher, TeacherSettings
from regard.tasks.encoders import join
from regard.tasks.masked_language_modelling import MaskedLanguageModellingTask


def taught(language_model, **settings) -> tuple[MaskedLanguageModellingTask, torch.nn.Module]:
    """A task with a teacher, and a student of half its layers."""
    teacher, student = language_model(), language_model("distilbert", next_sentence=False, layers=1)
    asked = TeacherSettings(folder="somewhere", **settings)
    task = MaskedLanguageModellingTask(
        tokenizer=teacher.task.tokenizer,
        maximum_length=32,
        next_sentence=False,
        teacher=Teacher(teacher.model.requires_grad_(False), asked),
    )
    return task, student.model


def batch_of(task: MaskedLanguageModellingTask, draw: int | None = 0):
    texts = task.tokenizer.encode_batch(["the dog sees a cat.", "a bird feeds every small horse. the fish", "a fish"])
    return task.batch([join(task.tokenizer, ids, maximum=32) for ids in texts], [0, 1, 2], draw=draw)


@pytest.mark.parametrize("at_masked", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_triple_loss_is_the_one_written_plainly(language_model, at_masked, temperature):
    weights = {"divergence_weight": 5.0, "masked_weight": 2.0, "cosine_weight": 1.0}
    task, student = taught(language_model, at_masked=at_masked, temperature=temperature, **weights)
    batch = batch_of(task)
    loss = task.loss(student, batch)

    real = batch.tokens.valid.flatten()
    own, theirs = (model(batch.tokens, batch.segments) for model in (student, task.teacher.model))
    z, t = own.logits.flatten(0, 1), theirs.logits.flatten(0, 1)
    places = batch.at if at_masked else real.nonzero().squeeze(1)
    log_q, p = (z[places] / temperature).log_softmax(dim=-1), (t[places] / temperature).softmax(dim=-1)
    divergence = 5.0 * temperature**2 * F.kl_div(log_q, p, reduction="sum")
    masked = 2.0 * F.cross_entropy(z[batch.at], batch.labels, reduction="sum")
    h, g = own.hidden.flatten(0, 1)[real], theirs.hidden.flatten(0, 1)[real]
    cosine = (1 - (h * g).sum(dim=-1) / (h.norm(dim=-1) * g.norm(dim=-1))).sum()

    torch.testing.assert_close(loss.total, masked, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(loss.auxiliary["divergence"].total, divergence, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(loss.auxiliary["cosine"].total, cosine, rtol=1e-4, atol=1e-4)
    assert loss.tokens == len(batch.labels)
    assert loss.auxiliary["divergence"].tokens == len(places)
    assert loss.auxiliary["cosine"].tokens == int(real.sum())

    ours = [
        loss.total + loss.auxiliary["divergence"].total + loss.auxiliary["cosine"].total,
        masked + divergence + cosine,
    ]
    gradients = [torch.autograd.grad(total, list(student.parameters()), allow_unused=True) for total in ours]
    for one, other in zip(*gradients, strict=True):
        assert (one is None) is (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=2e-3, atol=1e-3)


def test_the_teacher_reads_what_the_student_reads(language_model):
    task, student = taught(language_model)
    batch, seen = batch_of(task), []
    task.teacher.model.register_forward_hook(lambda module, given, made: seen.append(given[0]))
    task.loss(student, batch)
    assert seen == [batch.tokens]


def test_in_evaluation_the_student_is_alone(language_model):
    task, student = taught(language_model, masked_weight=7.0)
    batch = batch_of(task, draw=None)
    loss = task.loss(student, batch)
    logits = student(batch.tokens, batch.segments).logits.flatten(0, 1)[batch.at]
    torch.testing.assert_close(loss.total, F.cross_entropy(logits, batch.labels, reduction="sum"), rtol=1e-4, atol=1e-4)
    assert loss.auxiliary == {}


def test_a_weight_of_zero_leaves_the_cosine_out(language_model):
    task, student = taught(language_model, cosine_weight=0.0)
    assert list(task.loss(student, batch_of(task)).auxiliary) == ["divergence"]


@pytest.fixture
def teacher_run(masked_recipe, documents, tmp_path):
    return regard.train(masked_recipe(steps=3), output=tmp_path / "teacher", data=documents)


@pytest.fixture
def student_recipe(masked_recipe, teacher_run):
    def make(*, model=None, teacher=None, **training):
        folder = str(teacher_run.folder)
        values = masked_recipe(
            data={"next_sentence": False, "teacher": {"folder": folder} | (teacher or {})}, **training
        )
        values["model"] = {"name": "distilbert", "pretrained": folder, "pretrained_layers": [1]} | (model or {})
        del values["tokenizer"]
        return values

    return make


def test_a_student_learns_from_its_teachers_layer(student_recipe, teacher_run, documents, tmp_path):
    before = {path.name: path.read_bytes() for path in teacher_run.folder.iterdir() if path.is_file()}
    run = regard.train(student_recipe(learning_rate=1e-9, steps=1), output=tmp_path / "student", data=documents)
    student, teacher = run.load(), teacher_run.load()
    assert student.task.tokenizer == teacher.task.tokenizer
    ours, theirs = parameters_of(student.model), parameters_of(teacher.model)
    for name, tensor in ours.items():
        source = name.replace("layers.0.", "layers.1.").replace("head.", "head.masked.")
        torch.testing.assert_close(tensor, theirs[source], rtol=1e-4, atol=1e-6)
    # Nothing of the teacher is written with the student, and the teacher is as it was.
    assert not any("teacher" in name for name in ours)
    assert sum(tensor.numel() for tensor in ours.values()) < sum(tensor.numel() for tensor in theirs.values())
    assert {path.name: path.read_bytes() for path in teacher_run.folder.iterdir() if path.is_file()} == before
    values = json.loads((run.folder / "regard.json").read_text())
    assert values["task"]["name"] == "masked_language_modelling"
    assert "teacher" not in values["task"]
    assert student.fill("the [MASK] sees a cat.").best


def test_the_log_tells_of_all_three(student_recipe, documents, tmp_path):
    run = regard.train(student_recipe(steps=4), output=tmp_path / "student", data=documents)
    lines = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    trained, validated = ([line for line in lines if line["event"] == event] for event in ("train", "validation"))
    assert all(line["loss"] > line["divergence_loss"] + line["cosine_loss"] > 0 for line in trained)
    assert all("divergence_loss" not in line and line["loss"] == line["masked_loss"] for line in validated)


def test_a_student_drawn_anew_takes_the_teachers_tokenizer(student_recipe, teacher_run, documents, tmp_path):
    values = student_recipe()
    values["model"] = {
        "name": "bert",
        "width": 12,
        "heads": 3,
        "feedforward_width": 8,
        "layers": 1,
        "maximum_positions": 32,
    }
    run = regard.train(values, output=tmp_path / "student", data=documents)
    assert run.load().task.tokenizer == teacher_run.load().task.tokenizer


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": {"folder": "/nowhere"}}, "no such folder"),
        ({"teacher": {"temperature": 0.0}}, r"data\.teacher\.temperature"),
        ({"teacher": {"temperatur": 1.0}}, "did you mean 'temperature'"),
        (
            {"model": {"name": "bert", "pretrained": None, "pretrained_layers": None, "width": 8, "heads": 2}},
            "is 12 wide and the student 8",
        ),
    ],
)
def test_a_student_that_cannot_learn(student_recipe, documents, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        regard.train(student_recipe(**changes), output=tmp_path / "student", data=documents)


def test_another_vocabulary(student_recipe, documents, tokenizer, tmp_path):
    from regard.text import Tokenizer

    Tokenizer.train([each for document in documents for each in document], kind="bert", size=70).save(tmp_path / "t")
    values = student_recipe()
    values["model"] = {
        "name": "bert",
        "width": 12,
        "heads": 3,
        "feedforward_width": 8,
        "layers": 1,
        "maximum_positions": 32,
    }
    values["tokenizer"] = {"path": str(tmp_path / "t")}
    with pytest.raises(InputError, match="both must have the same tokenizer"):
        regard.train(values, output=tmp_path / "student", data=documents)
