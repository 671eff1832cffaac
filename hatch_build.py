"""Puts compiled kernels into the wheel where `REGARD_KERNELS` asks for them; a wheel without them is the same on every machine.

    REGARD_KERNELS=1 python -m build --wheel            for this machine
    REGARD_KERNELS=aarch64 python -m build --wheel      by aarch64-linux-gnu-g++ (or CXX)

The libraries use nothing but the C library, and the wheel is tagged by the oldest one that they run with (manylinux).
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST = (2, 17)
"""Of the C library, what the oldest tag that installers know (manylinux2014) stands for."""


class CustomBuildHook(BuildHookInterface):
    """Compiles each variant for the machine that was asked for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is written.

        Raises:
            ValueError: for a machine that there are no variants for, or a compiler that does not build them.
        """
        self.place = ""
        asked = os.environ.get("REGARD_KERNELS", "0")
        if asked in ("", "0") or self.target_name != "wheel" or version == "editable":
            return
        kernels = Path(self.root) / "src" / "regard" / "kernels"
        variants = _read(kernels / "variants.py")
        machine = platform.machine() if asked == "1" else asked
        wanted = [variant for variant in variants.VARIANTS if variant.machine == machine]
        if not wanted or platform.system() != "Linux":
            known = ", ".join(sorted({variant.machine for variant in variants.VARIANTS}))
            raise ValueError(f"REGARD_KERNELS={asked}: kernels are compiled on Linux, for {known}; 0 leaves them out")
        compiler = os.environ.get("CXX") or ("g++" if machine == platform.machine() else f"{machine}-linux-gnu-g++")
        self.place = tempfile.mkdtemp(prefix="regard-kernels-")
        libraries = [Path(self.place) / f"{variant.name}.so" for variant in wanted]
        for variant, library in zip(wanted, libraries, strict=True):
            _compile(compiler, variants, variant, library)
            if variant.machine == platform.machine() and variant.needs <= set(variants.processor().split()):
                _try(compiler, kernels / "trial.py", library)
        listed = Path(self.place) / variants.SUMS
        listed.write_text("\n".join([*variants.source_sums(), *variants.sums(libraries)]) + "\n", encoding="utf-8")
        for file in (*libraries, listed):
            build_data["force_include"][str(file)] = f"regard/kernels/{variants.SHIPPED.name}/{file.name}"
        major, minor = max(OLDEST, *map(_oldest, libraries))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{major}_{minor}_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After it."""
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)


def _read(file: Path) -> ModuleType:
    """A module of a package that is not installed."""
    spec = importlib.util.spec_from_file_location("regard_variants", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} cannot be read")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _compile(compiler: str, variants: ModuleType, variant: Any, library: Path) -> None:
    part = library.with_suffix(".o")
    _run([compiler, *variants.FLAGS, *variant.flags, "-c", variants.SOURCE.name, "-o", str(part)], variants.SOURCES)
    _run([compiler, str(part), "-s", *variants.LINKED, "-o", str(library)])


def _try(compiler: str, trial: Path, library: Path) -> None:
    """Let a child process compute with the library what is known; with the compiler's own OpenMP, where it has one."""
    runtime = _run([compiler, "-print-file-name=libgomp.so.1"]).strip()
    if os.path.isabs(runtime):
        _run([sys.executable, "-I", "-S", str(trial), str(library), runtime])


def _oldest(library: Path) -> tuple[int, int]:
    """The oldest C library that has all that this one uses of it."""
    names = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return max(((int(major), int(minor)) for major, minor in names), default=OLDEST)


def _run(command: list[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"the kernels were not compiled ({error}); REGARD_KERNELS=0 leaves them out") from error
    if done.returncode:
        said = (done.stderr + done.stdout).strip() or f"it ended with {done.returncode}"
        raise ValueError(
            f"the kernels were not compiled: {' '.join(command[:1])}: {said}; REGARD_KERNELS=0 leaves them out"
        )
    return done.stdout
