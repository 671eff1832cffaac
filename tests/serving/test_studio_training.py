"""The page of a training: what it is told of a run's log, while that grows, is cut back, or is not there yet."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.test_attention import InProcess

import regard
from regard.errors import InputError
from regard.serving.app import create_app
from regard.serving.server import Server
from regard.serving.studio import CALLS
from regard.serving.training import read_log, without_model

TINY: dict[str, Any] = {
    "model": {
        "name": "transformer",
        "width": 16,
        "heads": 2,
        "feedforward_width": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
    "data": {"dates": {"size": 60, "validation_size": 10, "languages": ["en"]}},
    "tokenizer": {"kind": "character", "size": 100},
    "training": {"steps": 4, "batch_tokens": 300, "evaluate_every": 2, "save_every": 2, "log_every": 1},
}


def told(folder: Path, status: int = 200, **body: Any) -> Any:
    async def call() -> httpx.Response:
        server = Server(link=InProcess(), more=CALLS, runs={"none": str(folder.parent), "tiny": str(folder)})  # type: ignore[arg-type]
        app = httpx.ASGITransport(app=create_app(server))
        async with httpx.AsyncClient(transport=app, base_url="http://server") as client:
            return await client.post("/studio/training/log", json=body)

    answer = asyncio.run(call())
    assert answer.status_code == status, answer.text
    return answer.json()


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


class Looker:
    """Asks as the page does, after every line that a run writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.seen = folder, {"run": "tiny"}, []
        self.found: list[dict[str, Any]] = []

    def look(self) -> None:
        answer = told(self.folder, **self.asked)
        assert not answer["again"]
        self.found.append(answer)
        self.seen += answer["events"]
        self.asked = {"run": "tiny", "since": answer["until"], "mark": answer["mark"]}

    def logged(self, event: Any) -> None:
        self.look()

    def started(self, model: Any, progress: Any, total_steps: Any) -> None:
        self.look()

    def stepped(self, progress: Any, tokens_per_second: float) -> None: ...
    def ended(self, progress: Any) -> None: ...


def test_the_page_is_told_each_line_once_while_the_run_goes_on(tmp_path: Path) -> None:
    looker = Looker(tmp_path / "run")
    regard.train(TINY, output=looker.folder, callbacks=[looker])
    looker.look()
    assert looker.seen == lines_of(looker.folder)
    assert [len(answer["events"]) for answer in looker.found] == [0, 1, 1, 1, 1, 1, 1, 0]
    assert {answer["finished"] for answer in looker.found[:-1]} == {""}
    before, after = looker.found[0], looker.found[-1]
    assert before["runs"] == ["tiny"]
    assert (before["checkpoint"], before["best"]) == (None, None)
    assert (after["finished"], after["checkpoint"]) == ("4 steps done", 4)
    losses = {event["step"]: event["loss"] for event in looker.seen if event["event"] == "validation"}
    assert losses[after["best"]] == min(losses.values())


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text("")
    (folder / "log.jsonl").write_text(text)
    return folder / "log.jsonl"


def test_a_log_that_a_resumed_run_cut_back_is_told_anew(tmp_path: Path) -> None:
    log = written(tmp_path, '{"step": 1, "seconds": 1.0}\n{"step": 2, "seconds": 2.0}\n')
    part = read_log(log)
    for resumed in (
        '{"step": 1, "seconds": 1.0}\n',
        '{"step": 1, "seconds": 1.0}\n{"step": 2, "seconds": 2.5}\n{"step": 3}\n',
    ):
        log.write_text(resumed)
        again = read_log(log, part.until, part.mark)
        assert again.again
        assert again.events == [json.loads(line) for line in resumed.splitlines()]


def test_a_line_half_written_waits_and_a_long_log_comes_in_parts(tmp_path: Path) -> None:
    log = written(tmp_path, '{"step": 1}\n{"step":')
    part = read_log(log)
    assert (part.events, part.until, part.more) == ([{"step": 1}], 12, False)
    log.write_text("".join(f'{{"step": {step}}}\n' for step in range(1, 10)))
    steps = []
    part = read_log(log, most=30)
    while part.more:
        steps += part.events
        part = read_log(log, part.until, part.mark, most=30)
    assert [event["step"] for event in steps + part.events] == [*range(1, 10)]


def test_what_is_no_log_or_no_run_is_refused(tmp_path: Path) -> None:
    log = written(tmp_path / "run", '{"step": 1}\n[2]\n')
    with pytest.raises(InputError, match=r"log\.jsonl: has a line that is no JSON object"):
        read_log(log)
    assert "no JSON object" in told(log.parent, 400)["error"]["message"]
    log.write_text("x" * 100)
    with pytest.raises(InputError, match="longer than 50 bytes"):
        read_log(log, most=50)
    assert "there is no run 'none'; this studio has tiny" in told(log.parent, 404, run="none")["error"]["message"]
    assert "holds a run" in told(tmp_path / "nowhere", 400)["error"]["message"]


def test_a_run_without_a_checkpoint_has_a_studio_of_its_training_alone(tmp_path: Path) -> None:
    log = written(tmp_path / "run", '{"event": "train", "step": 1, "loss": 2.5}\n')
    assert without_model(log.parent)
    command = [sys.executable, "-m", "regard", "studio", str(log.parent), "--no-browser", "--threads", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            found = json.loads("".join(iter(running.stdout.readline, "}\n")) + "}")
            url, _, key = found["url"].partition("#token=")
            assert found["models"] == []
            assert url.endswith("/studio/training")
            assert httpx.get(url).status_code == 200
            assert httpx.post(f"{url}/log", json={}).status_code == 401
            answer = httpx.post(f"{url}/log", json={}, headers={"authorization": f"Bearer {key}"}).json()
            assert answer["events"] == [{"event": "train", "step": 1, "loss": 2.5}]
        finally:
            running.terminate()
