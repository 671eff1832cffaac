"""The files around the package tell of the same version, the same dependencies and the same commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import regard

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def named(requirement: str) -> tuple[str, str]:
    name, _, rest = requirement.partition(">=")
    return {"torch": "pytorch"}.get(name.strip(), name.strip()), rest.strip()


def test_the_citation_is_of_this_version_and_licence():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["version"], cited["license"]) == (regard.__version__, PROJECT["license"])
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cited.keys()


def test_the_recipe_for_conda_has_the_packages_dependencies():
    text = (ROOT / "deploy" / "conda" / "meta.yaml").read_text("utf-8")
    assert f'version = "{regard.__version__}"' in text
    run = text.split("  run:\n")[1].split("\n\n")[0]
    given = {named(line.strip().removeprefix("- ")) for line in run.splitlines()}
    python = ("python", PROJECT["requires-python"].removeprefix(">="))
    assert given == {named(each) for each in PROJECT["dependencies"]} | {python}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_there_is_and_may_write_nothing(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job or "uses" in job
        for step in job.get("steps", ()):
            assert set(re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))) <= targets
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} == {"docs", "release", "tests", "wheels"}
