"""How large the container's image is: the steps of deploy/Dockerfile, done in a folder, where there is no Docker.

    python benchmarks/image_size.py --base DEBIAN

DEBIAN is a folder with the base image's files: Debian's smallest system with Python (debootstrap --variant=minbase, apt-get
install python3-venv), without documentation, translations and package lists, as the slim images are. The steps are read from the
Dockerfile: `pip`, `rm` and `strip` are run as they are there, `apt-get` is left out. At the end the server of this installation
answers once.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measured import record

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs" / "results" / "image-size.json"
ANSWERS = """
import json, re, subprocess, sys, urllib.request
import regard
pairs = [(str(number), bin(number)[2:]) for number in range(200)]
regard.train("pairs", ["training.steps=2", "tokenizer.kind=character"], output="binary", data=pairs)
with subprocess.Popen(["regard", "serve", "binary", "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
    try:
        address = next(found.group(1) for line in server.stderr if (found := re.search(r"at (http\\S+?)/v1", line)))
        body = json.dumps({"inputs": "5"}).encode()
        asked = urllib.request.Request(address + "/models/binary", body, {"content-type": "application/json"})
        print(urllib.request.urlopen(asked, timeout=60).status)
    finally:
        server.terminate()
"""


def steps() -> list[str]:
    """The commands of the stage that builds, without Debian's packages."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stage = text.split("FROM ")[1]
    commands = [line.removeprefix("RUN ") for line in stage.splitlines() if line.startswith("RUN ")]
    return [command for command in commands if "apt-get" not in command]


def megabytes(folder: Path) -> float:
    """Of all files, links not followed, each file once."""
    files = {(status.st_dev, status.st_ino): status.st_size for path in folder.rglob("*") if (status := path.lstat())}
    return sum(files.values()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--no-index-url", action="store_true", help="take PyTorch from where pip takes it here")
    parser.add_argument("--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        opt, source = Path(name, "regard"), Path(name, "source")
        for part in ("constraints.txt", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src", "recipes"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            source.mkdir(exist_ok=True)
            copy(ROOT / part, source / part)
        places = {
            "/opt/regard": str(opt),
            "/source": str(source),
            "python -m venv": f"{sys.executable} -m venv",
            "python3.13": f"python{sys.version_info[0]}.{sys.version_info[1]}",
        }
        for step in steps():
            for place, here in places.items():
                step = step.replace(place, here)
            if arguments.no_index_url:
                step = re.sub(r"--index-url \S+", "", step)
            subprocess.run(step, shell=True, check=True)
        installed, base = megabytes(opt), megabytes(arguments.base)
        environment = {"PATH": f"{opt / 'bin'}:/usr/bin:/bin", "HOME": name}
        python = str(opt / "bin" / "python")
        subprocess.run([python, "-c", ANSWERS], check=True, cwd=name, env=environment)
    record(
        arguments.output,
        title="The size of the container's image",
        target="at most 1 GB",
        figures={
            "packages, MB": round(installed),
            "base system with Python, MB": round(base),
            "image, MB": round(installed + base),
        },
        command="python benchmarks/image_size.py --base DEBIAN",
        precision="none",
        seed=None,
        note="Without Docker: the steps of the Dockerfile were run in a folder, with Debian 12 and its Python for the base. The "
        "server of the installation answered.",
    )


if __name__ == "__main__":
    main()
