"""Two workers under torchrun, on gloo: the same recipe gives the same model by DDP and by FSDP2."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.checking import check
from regard.training.callbacks import Callback

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("distributed_run.py")
CASES = pytest.mark.parametrize(
    ("model", "parallel"),
    [(model, parallel) for model in ("transformer", "bahdanau", "bert") for parallel in ("ddp", "fsdp")],
)


def settings_of(small_recipe, model: str, parallel: str, **training: Any) -> dict[str, Any]:
    """Windows of four batches, the last of an epoch shorter than the workers are; log, saves and evaluations out of step."""
    values = small_recipe(
        model,
        steps=11,
        batch_tokens=180,
        accumulate=2,
        epsilon=1e-4,
        log_every=5,
        save_every=3,
        evaluate_every=4,
        label_smoothing=0.1,
        parallel=parallel,
        **training,
    )
    values["model"]["dropout"] = 0.0
    if model != "bahdanau":
        values["model"]["attention_dropout"] = 0.0
    return values


def answers_of(loaded: Any, pairs: list[tuple[str, str]]) -> list[str]:
    """What a model says of eight texts."""
    texts = [source for source, _ in pairs[:8]]
    if hasattr(loaded, "fill_batch"):
        return [filled.best for filled in loaded.fill_batch([f"[MASK] {text} [MASK]" for text in texts])]
    return [answer.text for answer in loaded.translate_batch(texts)]


@pytest.fixture
def torchrun(pairs, tmp_path):
    """Run the script on two workers; returns its result line, or the exit code of a run that was left."""

    def run(
        values: dict[str, Any],
        output: Path,
        *,
        data: list[Any] | None = None,
        resume: bool = False,
        leave_at: int | None = None,
        signal_at: int | None = None,
        signalled: str = "",
        poison: str = "",
    ) -> dict[str, Any]:
        orders = tmp_path / "orders.json"
        orders.write_text(
            json.dumps(
                {
                    "recipe": values,
                    "data": data or pairs,
                    "output": str(output),
                    "resume": resume,
                    "leave_at": leave_at,
                    "signal_at": signal_at,
                    "signalled": signalled,
                    "poison": poison,
                    "sharded": values["training"]["parallel"] == "fsdp",
                }
            )
        )
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += ["--master-addr", "localhost", "--master-port", str(port), str(SCRIPT), str(orders)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
        if leave_at is not None:
            assert done.returncode != 0
            assert "exitcode  : 3" in done.stderr, done.stderr
            return {}
        if signal_at is not None:
            return {"stopped": re.findall(r"STOPPED (\d+) (\d+)", done.stderr)}
        assert done.returncode == 0, done.stderr
        if poison:
            return {"refused": re.findall(r"REFUSED (.*)", done.stderr)}
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        return json.loads(line.removeprefix("RESULT "))

    return run


@CASES
def test_two_workers_are_one_with_twice_the_batches(model, parallel, small_recipe, torchrun, pairs, remains, tmp_path):
    values = settings_of(small_recipe, model, parallel)
    result = torchrun(values, tmp_path / "two")
    alone = settings_of(small_recipe, model, parallel)
    alone["training"]["accumulate"] *= 2
    single = regard.train(alone, output=tmp_path / "one", data=pairs)

    assert (result["steps"], result["best"]) == (single.steps, single.best_step)
    assert result["metrics"] == pytest.approx(single.metrics, rel=1e-3)
    two, one = remains(tmp_path / "two"), remains(tmp_path / "one")
    assert len(two["log"]) == len(one["log"])
    for ours, theirs in zip(two["log"], one["log"], strict=True):
        assert ours.pop("event") == theirs.pop("event")
        assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-6)
    found, wanted = (load_file(tmp_path / name / "model.safetensors") for name in ("two", "one"))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=5e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )

    # The folder is an ordinary one, whole on one process.
    assert answers_of(regard.load(tmp_path / "two"), pairs) == answers_of(single.load(), pairs)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_student_on_two_workers_learns_what_it_learns_on_one(
    parallel, small_recipe, torchrun, pairs, remains, tmp_path
):
    """Each worker has the teacher to itself; the three means are over both workers' batches."""
    teacher = regard.train(small_recipe("bert", steps=4), output=tmp_path / "teacher", data=pairs)
    values = settings_of(small_recipe, "bert", parallel)
    values["model"] = {
        "name": "distilbert",
        "pretrained": str(teacher.folder),
        "pretrained_layers": [0],
        "dropout": 0.0,
    }
    values["model"]["attention_dropout"] = 0.0
    values["data"] |= {"next_sentence": False, "teacher": {"folder": str(teacher.folder)}}
    values["tokenizer"] = {}
    result = torchrun(values, tmp_path / "two")
    values["training"]["accumulate"] *= 2
    single = regard.train(values, output=tmp_path / "one", data=pairs)
    assert result["metrics"] == pytest.approx(single.metrics, rel=2e-3)
    two, one = remains(tmp_path / "two"), remains(tmp_path / "one")
    for ours, theirs in zip(two["log"], one["log"], strict=True):
        assert ours.pop("event") == theirs.pop("event")
        assert ours == pytest.approx(theirs, rel=5e-3, abs=1e-5)
    assert any({"divergence_loss", "cosine_loss"} <= line.keys() for line in two["log"])


@CASES
def test_two_workers_resume_bit_for_bit(model, parallel, small_recipe, torchrun, remains, tmp_path):
    values = settings_of(small_recipe, model, parallel)
    values["model"]["dropout"] = 0.1
    torchrun(values, tmp_path / "whole")
    # After step 7 the last checkpoint is of step 6, in the middle of a log line's five steps.
    torchrun(values, tmp_path / "left", leave_at=7)
    assert json.loads((tmp_path / "left" / "checkpoints.json").read_text())["last"] == "step-00000006"
    torchrun(values, tmp_path / "left", resume=True)
    whole, left = remains(tmp_path / "whole"), remains(tmp_path / "left")
    assert whole.keys() == left.keys()
    for name, value in whole.items():
        assert left[name] == value, f"{name} differs"


@pytest.mark.parametrize(("signalled", "parallel"), [("other", "ddp"), ("other", "fsdp"), ("torchrun", "ddp")])
def test_a_signal_to_any_worker_stops_both_at_one_step_with_a_checkpoint(
    signalled, parallel, small_recipe, torchrun, remains, tmp_path
):
    """And resumed it is the run that was never stopped, bit for bit."""
    values = settings_of(small_recipe, "transformer", parallel)
    values["model"]["dropout"] = 0.1
    torchrun(values, tmp_path / "whole")
    stopped = torchrun(values, tmp_path / "cut", signal_at=5, signalled=signalled)["stopped"]
    last = json.loads((tmp_path / "cut" / "checkpoints.json").read_text())["last"]
    assert last in ("step-00000005", "step-00000006", "step-00000007")
    if signalled == "other":  # a torchrun that is stopped does not wait for what its workers still say
        assert stopped == [(str(int(signal.SIGTERM)), str(int(last[5:])))] * 2
    assert not (tmp_path / "cut" / "config.json").exists()
    torchrun(values, tmp_path / "cut", resume=True)
    whole, cut = remains(tmp_path / "whole"), remains(tmp_path / "cut")
    assert whole.keys() == cut.keys()
    for name, value in whole.items():
        assert cut[name] == value, f"{name} differs"


@pytest.mark.parametrize(("parallel", "what"), [("ddp", "loss"), ("ddp", "gradient"), ("fsdp", "gradient")])
def test_two_workers_end_at_the_batch_that_makes_what_is_no_finite_number(
    parallel, what, small_recipe, torchrun, pairs, tmp_path
):
    values = settings_of(small_recipe, "transformer", parallel) | {"data": {"validation_size": 1}}
    values["training"] |= {"steps": 40, "batch_tokens": 4, "evaluate_every": 40}  # each example is a batch
    data = [pair for pair in pairs if not any(letter * 3 in pair[0] for letter in "abcdefgh")] + [("ggg", "ggg")]
    said = torchrun(values, tmp_path / "run", data=data, poison=what)["refused"]
    assert len(said) == 2
    assert said[0] == said[1]
    kind = "the loss is nan" if what == "loss" else "the gradient of .* holds NaN or infinity"
    batch = f"batch [1-4] of the update's [34], example {len(data) - 1} of .*:{len(data)}"
    assert re.search(rf"diverged at step [0-9]+: {kind} \({batch}\)", said[0]), said[0]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_blocks_computed_again_change_nothing(parallel, small_recipe, torchrun, tmp_path):
    """With dropout, whose masks are drawn a second time in the backward pass."""
    values = settings_of(small_recipe, "transformer", parallel)
    values["model"]["dropout"] = 0.1
    torchrun(values, tmp_path / "plain")
    values["training"]["activation_checkpointing"] = True
    torchrun(values, tmp_path / "again")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "again"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_reversible_blocks_on_two_workers_learn_what_they_learn_on_one(parallel, torchrun, pairs, tmp_path):
    """Their inputs are computed back from their outputs, with parameters that FSDP has gathered."""
    values = {
        "task": "language_modelling",
        "model": {
            "name": "reformer", "width": 16, "heads": 2, "head_width": 8, "feedforward_width": 24, "layers": ["local", "lsh"],
            "maximum_positions": 64, "axial_shape": [8, 8], "axial_widths": [8, 8], "rounds": 2, "chunk": 8, "dropout": 0.0,
        },
        "data": {"length": 64},
        "tokenizer": {"kind": "byte_bpe", "size": 257},
        "training": {
            "steps": 8, "batch_tokens": 256, "learning_rate": 1e-2, "epsilon": 1e-4, "warmup": 2, "precision": "float32",
            "evaluate_every": 8, "parallel": parallel,
        },
    }  # fmt: skip
    texts = [" ".join(f"{source} is {target}" for source, target in pairs[start : start + 6]) for start in range(100)]
    result = torchrun(values, tmp_path / "two", data=texts)
    values["training"] |= {"accumulate": 2, "parallel": "ddp"}
    single = regard.train(values, output=tmp_path / "one", data=texts)
    assert result["steps"] == single.steps
    assert result["metrics"]["loss"] == pytest.approx(single.metrics["loss"], rel=1e-3)


class Started(Callback):
    """Notes the parameters that a run begins with, and perhaps ends it after a step."""

    def __init__(self, leave_at: int | None = None) -> None:
        self.leave_at = leave_at

    def started(self, model, progress, total_steps):
        self.parameters = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.leave_at:
            raise KeyboardInterrupt


def test_a_run_of_two_goes_on_alone_from_the_shards_of_both(small_recipe, torchrun, pairs, tmp_path):
    """Parameters are bit for bit what two workers had; a damaged shard is told, and the checkpoint before taken."""
    values = settings_of(small_recipe, "transformer", "fsdp")
    torchrun(values, tmp_path / "run", leave_at=7)
    place = tmp_path / "run" / "checkpoints" / "step-00000006"
    for stem in ("model", "optimizer"):
        shards = [place / f"{stem}-0000{number}-of-00002.safetensors" for number in (1, 2)]
        sizes = [shard.stat().st_size for shard in shards]
        assert max(sizes) < 0.7 * sum(sizes)
        assert not (place / f"{stem}.safetensors").exists()
    stored = {name: tensor for number in (1, 2) for name, tensor in load_file(place / shards_name(number)).items()}
    assert regard.load(tmp_path / "run").translate("abc").source == "abc"
    shutil.copytree(tmp_path / "run", tmp_path / "damaged")

    # The windows of one worker hold half the batches, so it is another run from here on, but a sound one.
    watching = Started()
    further = regard.train(values, output=tmp_path / "run", data=pairs, resume=True, callbacks=[watching])
    assert further.steps == 11
    assert further.metrics["loss"] < 3
    assert watching.parameters.keys() == stored.keys()
    assert all(torch.equal(watching.parameters[name], tensor) for name, tensor in stored.items())

    shard = tmp_path / "damaged" / "checkpoints" / "step-00000006" / "optimizer-00002-of-00002.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    said: list[str] = []
    regard.train(values, output=tmp_path / "damaged", data=pairs, resume=True, say=said.append)
    assert "going on from step 4." in said
    assert any("optimizer.safetensors" in line and "checksum differs" in line for line in said)


def shards_name(number: int) -> str:
    """Of two."""
    return f"model-0000{number}-of-00002.safetensors"


def test_a_run_of_one_goes_on_on_two(small_recipe, torchrun, pairs, remains, tmp_path):
    """Each of them reads its rows of what one worker wrote; distributed_run.py compares them bit for bit."""
    values = settings_of(small_recipe, "bahdanau", "fsdp")
    with pytest.raises(KeyboardInterrupt):
        regard.train(values, output=tmp_path / "run", data=pairs, callbacks=[Started(leave_at=7)])
    result = torchrun(values, tmp_path / "run", resume=True)
    assert result["steps"] == 11
    assert [line["step"] for line in remains(tmp_path / "run")["log"] if line["event"] == "train"] == [5, 10, 11]
    report = check(tmp_path / "run")
    assert report.whole, report
