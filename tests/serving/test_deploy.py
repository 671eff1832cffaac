"""deploy/: what can be known of a systemd unit and a Dockerfile where neither systemd nor Docker runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.serving.conftest import Served

from regard.cli.main import main
from regard.cli.serving import api_keys
from regard.errors import InputError
from regard.serving.run import WebOptions, tell_systemd

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "regard.service"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def setting(name: str) -> str:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]


def entrypoint() -> list[str]:
    return json.loads(re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, flags=re.MULTILINE)[0])


@pytest.mark.parametrize("words", [shlex.split(setting("ExecStart"))[1:], entrypoint()[1:]], ids=["unit", "container"])
def test_every_option_is_one_of_regard_serve(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert words[0] == "serve"
    assert main(["serve", "--help"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {word for word in words if word.startswith("--")} <= known


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    installed = tmp_path / UNIT.name
    installed.write_text(UNIT.read_text().replace("/opt/regard/bin/regard", sys.executable))
    done = subprocess.run([analyze, "verify", installed], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rated = [analyze, "security", "--offline=true", "--threshold=20", installed]  # tenths; 20 is what systemd calls OK
    assert subprocess.run(rated, capture_output=True, check=False).returncode == 0


def test_the_unit_waits_longer_than_the_server_drains() -> None:
    drain = int(re.findall(r"--drain (\d+)", setting("ExecStart"))[0])
    assert int(setting("TimeoutStopSec")) >= drain + 10


def test_systemd_is_told_once_the_server_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_systemd("READY=1")  # nobody waits
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        tell_systemd("READY=1")
        assert channel.recv(100) == b"READY=1"


def test_the_keys_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_API_KEY", raising=False)
    file = tmp_path / "keys"
    file.write_text("first\n\n  second \r\n")
    assert api_keys(file) == ("first", "second")
    assert api_keys(None) == ()
    monkeypatch.setenv("REGARD_API_KEY", " third\n")
    assert api_keys(None) == ("third",)
    with pytest.raises(InputError, match="in one place"):
        api_keys(file)
    monkeypatch.delenv("REGARD_API_KEY")
    file.write_text("\n \n")
    with pytest.raises(InputError, match="has no key"):
        api_keys(file)
    with pytest.raises(InputError, match="none: no such file"):
        api_keys(tmp_path / "none")


@pytest.mark.parametrize("key", ["two words", "schlüssel", "a\nb"])
def test_a_key_that_no_client_can_send_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InputError, match="an HTTP header cannot hold") as refused:
        WebOptions(api_keys=(key,))
    assert key not in str(refused.value)


def test_a_server_with_a_file_of_keys_and_the_containers_health_check(
    start_server: Callable[..., Served], writer_folder: Path, tmp_path: Path
) -> None:
    """The check of the Dockerfile succeeds while the server answers, and fails where none listens."""
    (tmp_path / "keys").write_text("old\nnew\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(5)
        served = start_server(
            f"writer={writer_folder}", "--api-key-file", tmp_path / "keys", NOTIFY_SOCKET=str(tmp_path / "notify")
        )
        assert channel.recv(100) == b"READY=1"

    def status(key: str) -> int:
        return httpx.get(f"{served.url}/v1/models", headers={"authorization": f"Bearer {key}"}).status_code

    assert [status(key) for key in ("old", "new", "oldnew", "other")] == [200, 200, 401, 401]
    command = json.loads(re.findall(r"^ +CMD (\[.+\])$", DOCKERFILE, flags=re.MULTILINE)[0])
    assert command[0] == "python"
    here = command[2].replace("http://127.0.0.1:8000", served.url)
    assert here != command[2]
    assert subprocess.run([sys.executable, "-c", here], check=False).returncode == 0
    nowhere = command[2].replace(":8000", ":1")
    assert subprocess.run([sys.executable, "-c", nowhere], capture_output=True, check=False).returncode != 0


def test_the_container_runs_as_nobody_of_the_host_with_the_tested_torch_for_processors() -> None:
    stages = DOCKERFILE.split("FROM ")
    assert re.search(r"^USER [1-9]\d+$", stages[-1], flags=re.MULTILINE)
    pinned = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert f"--index-url https://download.pytorch.org/whl/cpu torch=={pinned[0]}\n" in DOCKERFILE
    extras = re.findall(r'"/source\[([a-z,]+)\]"', DOCKERFILE)[0].split(",")
    assert {*extras} <= tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()


@pytest.mark.slow
def test_what_the_container_copies_is_enough_for_a_wheel(tmp_path: Path) -> None:
    """As the image is built: only what .dockerignore lets through, and of it what COPY names."""
    pytest.importorskip("build")
    source = tmp_path / "source"
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY ((?!--from).+)$", DOCKERFILE, flags=re.MULTILINE):
        *names, target = line.split()
        assert {*names} <= allowed
        for name in names:
            place = tmp_path / target.strip("/")
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", source]
    subprocess.run(command, check=True, capture_output=True)
    assert len([*(tmp_path / "dist").glob("regard-*.whl")]) == 1
