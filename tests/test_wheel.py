"""What is in the wheel: the recipes by their names, the marker of types; and that they are found from an empty folder."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regard import InputError
from regard.kernels import kernels
from regard.training import read_recipe
from regard.training.recipe import packaged_recipes, recipe_file

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))


def built(place: Path, kernels: str) -> Path:
    """A freshly built wheel."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    settings = {**os.environ, "REGARD_KERNELS": kernels}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = place.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """One without compiled kernels."""
    file = built(tmp_path_factory.mktemp("wheel"), "0")
    assert file.name.endswith("-py3-none-any.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_holds_every_recipe_and_the_marker_of_types(wheel):
    names = set(wheel.namelist())
    assert len(RECIPES) > 40
    assert {f"regard/recipes/{name}.yaml" for name in RECIPES} <= names
    assert "regard/recipes/comparisons/convolution-and-attention.yaml" in names
    assert "regard/py.typed" in names


def test_the_wheel_holds_the_source_of_the_kernels(wheel):
    files = list((ROOT / "src" / "regard" / "kernels" / "sources").iterdir())
    assert {path.suffix for path in files} == {".cpp", ".h"}
    assert {str(path.relative_to(ROOT / "src")) for path in files} <= set(wheel.namelist())
    assert not any("_libraries" in name for name in wheel.namelist())


DECODES = """
import torch
from regard.models import GPT2, GPT2Config
from regard.quantization import InferenceDecoder
from regard.kernels import kernels

torch.manual_seed(1)
sizes = {"width": 64, "heads": 2, "feedforward_width": 128, "layers": 2, "maximum_positions": 64, "vocabulary": 50}
prepared = InferenceDecoder(GPT2(GPT2Config(**sizes)).eval(), "int8")
state, tokens = prepared.start(2), torch.tensor([3, 4])
for _ in range(40):
    logits, state = prepared.step(tokens, state)
    tokens = logits.argmax(1)
    print(tokens.tolist(), *(f"{number:.4f}" for number in logits.max(1).values.tolist()))
print(getattr(kernels().library, "_name", kernels().why))
"""


@pytest.mark.slow
def test_a_wheel_with_kernels_decodes_in_8_bits_without_a_compiler(tmp_path):
    """And comes to what kernels come to that are built where they run."""
    if kernels().library is None:
        pytest.skip(f"no compiled kernels: {kernels().why}")
    file = built(tmp_path / "wheel", "1")
    assert file.name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl")
    home = tmp_path / "installed"
    zipfile.ZipFile(file).extractall(home)
    found = {}
    for place, path in ((home, ""), (ROOT / "src", os.environ["PATH"])):
        settings = {**os.environ, "PYTHONPATH": str(place), "PATH": path, "XDG_CACHE_HOME": str(tmp_path / place.name)}
        done = subprocess.run(
            [sys.executable, "-c", DECODES], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        *found[place], library = done.stdout.splitlines()
        assert library.startswith(str(home if place == home else tmp_path / "src")), library
    assert len(found[home]) == 40
    assert found[home] == found[ROOT / "src"]


@pytest.mark.slow
def test_a_wheel_for_a_machine_without_kernels_is_refused(tmp_path):
    with pytest.raises(
        AssertionError, match=r"REGARD_KERNELS=vax: kernels are compiled on Linux, for aarch64, x86_64; 0 leaves"
    ):
        built(tmp_path, "vax")


def test_the_wheel_holds_every_claim_and_names_their_catalogue(wheel):
    files = [path for path in (ROOT / "src" / "regard_claims").rglob("*") if path.suffix in (".py", ".yaml", ".json")]
    assert len(files) > 60
    assert {str(path.relative_to(ROOT / "src")) for path in files} <= set(wheel.namelist())
    (points,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "[regard.claims]\nregard = regard_claims\n" in wheel.read(points).decode()


def test_every_recipe_is_found_by_its_name_from_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert packaged_recipes() == RECIPES
    for name in RECIPES:
        found = {recipe_file(form) for form in (name, f"{name}.yaml", f"recipes/{name}.yaml")}
        assert [file.read_text() for file in found] == [(ROOT / "recipes" / f"{name}.yaml").read_text()]
    assert read_recipe("dates", ["seed=3"]).seed == 3
    assert recipe_file("recipes/comparisons/convolution-and-attention.yaml").is_file()


def test_an_own_file_comes_before_the_packaged_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    own = (ROOT / "recipes" / "dates.yaml").read_text().replace("seed: 1", "seed: 7")
    (tmp_path / "recipes" / "dates.yaml").write_text(own)
    assert read_recipe("recipes/dates.yaml").seed == 7
    assert read_recipe("dates").seed != 7


@pytest.mark.parametrize("name", ["datse", "../recipes/dates", "recipes/../dates", "", "/dates"])
def test_an_unknown_recipe_names_the_nearest(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        read_recipe(name)
    with pytest.raises(InputError, match="did you mean 'dates'"):
        read_recipe("datse")


@pytest.mark.slow
def test_a_recipe_is_trained_by_its_bare_name_from_the_installed_wheel(wheel, tmp_path):
    """As the README shows it: in an empty folder, with the package from the wheel and none of the source."""
    home, desk = tmp_path / "installed", tmp_path / "desk"
    wheel.extractall(home)
    desk.mkdir()
    sizes = [f"model.{name}=8" for name in ("embedding_width", "hidden_width", "attention_width", "maxout_width")]
    small = [*sizes, "data.dates.size=100", "data.dates.validation_size=20", "training.steps=2"]
    shown = "regard train dates --output runs/dates"
    assert shown in (ROOT / "README.md").read_text("utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *shown.split(), *small],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (desk / "runs" / "dates" / "recipe.yaml").is_file()
    code = "import regard; print(regard.__file__)"
    place = subprocess.run(
        [sys.executable, "-c", code],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert place.stdout.startswith(str(home))
