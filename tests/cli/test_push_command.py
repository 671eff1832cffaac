"""`regard push`: a model to the Hugging Face hub. The hub's library is a stand-in; nothing is sent."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest

GPT2 = Path(__file__).parents[1] / "golden" / "folders" / "gpt2"


class Api:
    """What was asked of the hub, and what was uploaded."""

    calls: ClassVar[list[dict[str, Any]]]
    files: ClassVar[dict[str, int]]
    fault: ClassVar[Exception | None]

    def __init__(self, token: str | None = None) -> None:
        self.token = token

    def create_repo(self, repo_id: str, **more: Any) -> Any:
        self.calls.append({"create": repo_id, **more})
        if self.fault is not None:
            raise self.fault
        return types.SimpleNamespace(repo_id=repo_id if "/" in repo_id else f"me/{repo_id}")

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str, **more: Any) -> Any:
        self.calls.append({"upload": repo_id, "message": commit_message})
        self.files.update({path.name: path.stat().st_size for path in Path(folder_path).iterdir()})
        return types.SimpleNamespace(commit_url=f"https://huggingface.co/{repo_id}/commit/1")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    kind = type("Api", (Api,), {"calls": [], "files": {}, "fault": None})
    library: Any = types.ModuleType("huggingface_hub")
    library.HfApi, library.get_token = kind, lambda: "kept"
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return kind


def test_a_model_is_uploaded_and_its_address_printed(command, api):
    answer = command("push", GPT2, "me/small", "--private", "--message", "First")
    assert answer.code == 0
    assert "https://huggingface.co/me/small/commit/1" in answer.out
    created, uploaded = api.calls
    assert (created["create"], created["private"]) == ("me/small", True)
    assert uploaded == {"upload": "me/small", "message": "First"}
    assert {"config.json", "model.safetensors", "regard.json", "README.md"} <= api.files.keys()


def test_the_address_as_json(command, api):
    found = json.loads(command("push", GPT2, "small", "--max-shard-size", "4KB", "--json").out)
    assert list(found) == ["command", "version", "model", "repository", "commit"]
    assert (found["command"], found["commit"]) == ("push", "https://huggingface.co/me/small/commit/1")
    assert api.calls[0]["private"] is None
    assert "model.safetensors.index.json" in api.files


def test_without_a_connection_there_is_one_sentence(command, api):
    api.fault = ConnectionError("no route to host")
    sentence = command("push", GPT2, "me/small").refusal()
    assert "nothing was uploaded" in sentence
    assert "check the connection" in sentence


def test_what_cannot_be_uploaded_is_refused(command, api, tmp_path):
    assert "holds no model" in command("push", tmp_path, "me/small").refusal()
    assert "write owner/name" in command("push", GPT2, "a/b/c").refusal()
    assert not api.calls
    sys.modules["huggingface_hub"].get_token = lambda: None  # type: ignore[attr-defined]
    assert "log in with `hf auth login`" in command("push", GPT2, "me/small").refusal()
