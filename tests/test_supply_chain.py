"""What the package is built and tested with is pinned by hash, and its pins agree; what SECURITY.md names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def locked() -> dict[str, tuple[str, int]]:
    """By normal name the version in requirements.lock, and by how many hashes it is known."""
    lines = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    found = {}
    for line in lines:
        if line and not line.lstrip().startswith("#"):
            name, version = re.match(r"([\w.-]+)(?:\[[^]]*\])?==([^ ;]+)", line).groups()
            found[normal(name)] = version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", line))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_is_locked_by_version_and_hash():
    pins = locked()
    assert len(pins) > 100
    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_the_lock_names_no_index_and_no_other_place():
    text = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"(?m)^\s*-(?!-hash=).*|://|@ ", text) == []


def test_the_lock_has_what_the_tests_need_in_the_versions_of_the_constraints():
    pins = locked()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, wanted, seen = project["optional-dependencies"], list(project["dependencies"]), set()
    left = ["dev"]
    while left:
        extra = left.pop()
        for requirement in extras[extra]:
            inner = re.fullmatch(r"regard\[([^]]+)\]", requirement)
            left += [each for each in inner[1].split(",") if each not in seen] if inner else []
            wanted += [] if inner else [requirement]
        seen.add(extra)
    names = {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in wanted}
    assert names - pins.keys() == set(), "run `make lock`"
    constraints = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    other = {
        name: pins[normal(name)][0]
        for name, version in constraints.items()
        if normal(name) in pins and pins[normal(name)][0] != version
    }
    assert other == {}, "run `make lock`"


def test_what_the_page_on_security_names_exists():
    text = (ROOT / "SECURITY.md").read_text()
    for path in re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", text):
        assert (ROOT / path).exists(), path
    for path, name in re.findall(r"`(tests/[\w/.]+)::(\w+)`", text):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
    targets = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text())
    for target in re.findall(r"`make ([\w-]+)`", text):
        assert target in targets
