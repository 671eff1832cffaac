"""`regard push` by the real huggingface_hub, against a server on loopback that answers as the hub does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import regard

pytest.importorskip("huggingface_hub")

GPT2 = Path(__file__).parents[1] / "golden" / "folders" / "gpt2"
TOKEN = "hf_of_the_test"
STOOD_THERE = ["README.md", "model-00001-of-00002.safetensors"]
"""Files of an earlier upload."""


class Hub(ThreadingHTTPServer):
    """What the hub has of one repository, and what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.refuses = False
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.created: dict[str, Any] = {}
        self.blobs: dict[str, bytes] = {}
        self.commit: list[dict[str, Any]] = []

    def files(self) -> dict[str, bytes]:
        """The files that the commit adds."""
        kinds: dict[str, Callable[[dict[str, Any]], bytes]] = {
            "file": lambda value: base64.b64decode(value["content"]),
            "lfsFile": lambda value: self.blobs[value["oid"]],
        }
        return {
            line["value"]["path"]: kinds[line["key"]](line["value"]) for line in self.commit if line["key"] in kinds
        }


class Asked(BaseHTTPRequestHandler):
    """One request."""

    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def answer(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        hub.asked.append(f"GET {path}")
        if hub.refuses:
            self.answer({"error": "Forbidden"}, 403)
        elif path == "/api/models/me/small":
            self.answer({"id": "me/small", "sha": "0" * 40, "siblings": [{"rfilename": name} for name in STOOD_THERE]})
        elif path == "/api/models/me/small/tree/main":
            self.answer([{"type": "file", "path": name, "size": 1, "oid": "0" * 40} for name in STOOD_THERE])
        else:
            self.answer({"error": "Not found"}, 404)

    def do_PUT(self) -> None:
        content = self.body()
        self.server.blobs[self.path.rpartition("/")[2]] = content
        self.answer({})

    def do_POST(self) -> None:
        hub, path, content = self.server, self.path.partition("?")[0], self.body()
        hub.asked.append(f"POST {path}")
        hub.tokens.add(self.headers.get("Authorization"))
        if hub.refuses:
            self.answer({"error": "Forbidden: the token has no right to write"}, 403)
        elif path == "/api/repos/create":
            hub.created = json.loads(content)
            self.answer({"url": f"{hub.address}/me/small"})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif path == "/api/models/me/small/preupload/main":
            named = [each["path"] for each in json.loads(content)["files"]]
            modes = {True: "lfs", False: "regular"}
            self.answer(
                {
                    "files": [
                        {"path": name, "uploadMode": modes[name.endswith(".safetensors")], "shouldIgnore": False}
                        for name in named
                    ]
                }
            )
        elif path == "/me/small.git/info/lfs/objects/batch":
            objects = json.loads(content)["objects"]
            for each in objects:
                each["actions"] = {"upload": {"href": f"{hub.address}/lfs/{each['oid']}", "header": {}}}
            self.answer({"transfer": "basic", "objects": objects})
        elif path == "/api/models/me/small/commit/main":
            hub.commit = [json.loads(line) for line in content.splitlines() if line]
            self.answer({"success": True, "commitOid": "1" * 40, "commitUrl": f"{hub.address}/me/small/commit/1"})
        else:
            self.answer({"error": "Not found"}, 404)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def push(hub: Hub, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `regard push` as a process that knows of no hub but this one."""

    def call(*words: object, token: str | None = TOKEN) -> subprocess.CompletedProcess[str]:
        usual = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        ours = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
        ours |= {"NO_PROXY": "127.0.0.1", "HF_TOKEN": token} if token else {"NO_PROXY": "127.0.0.1"}
        command = [sys.executable, "-m", "regard", "push", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env=usual | ours, timeout=300, check=False)

    return call


def test_exactly_the_files_of_the_folder_are_committed(hub, push, tmp_path):
    done = push(GPT2, "me/small", "--private", "--message", "First")
    assert done.returncode == 0, done.stderr
    assert f"{hub.address}/me/small/commit/1" in done.stdout
    regard.load(GPT2).save(tmp_path / "saved")
    assert hub.files() == {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    card = hub.files()["README.md"].decode()
    assert card.startswith("---\n")
    assert "regard" in card.partition("\n---\n")[0]
    weights = hub.files()["model.safetensors"]
    assert list(hub.blobs) == [hashlib.sha256(weights).hexdigest()]
    assert [line["value"]["path"] for line in hub.commit if line["key"] == "deletedFile"] == STOOD_THERE[1:]
    assert hub.commit[0]["value"]["summary"] == "First"
    assert (hub.created["name"], hub.created["organization"]) == ("small", "me")
    assert hub.created.get("private") is True or hub.created.get("visibility") == "private"  # by the library's version
    assert hub.tokens <= {f"Bearer {TOKEN}", None}


def test_without_a_token_one_sentence_and_nothing_is_asked(hub, push):
    done = push(GPT2, "me/small", token=None)
    assert done.returncode != 0
    assert done.stderr.strip().endswith(
        "needs a token with permission to write; log in with `hf auth login`, or set HF_TOKEN"
    )
    assert len(done.stderr.strip().splitlines()) <= 2  # a sentence, perhaps wrapped
    assert hub.asked == []


def test_a_token_without_the_right_to_write_is_one_sentence(hub, push):
    hub.refuses = True
    done = push(GPT2, "me/small")
    assert done.returncode != 0
    assert "the token has no permission to write there; use one that has" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert hub.commit == []
