"""What opening and using a model imports and runs through: modules, processor seconds, files.

    python benchmarks/imports.py [--output docs/results/imports.json]

Each number is of a fresh process. Processor seconds are the least of five processes, less those of a process with
Python alone for `import regard`, and with PyTorch and its libraries for `regard.load`. The folders are those of the tests.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from measured import record

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ROOT / "tests" / "golden" / "folders"
TIMES = 5

SPENT = "import resource; used = resource.getrusage(resource.RUSAGE_SELF); spent = used.ru_utime + used.ru_stime\n"
OURS = "import sys; ours = sorted(name for name in sys.modules if name.split('.')[0] == 'regard')\n"
LIBRARIES = "import numpy, safetensors.torch, tokenizers, torch\n"


def run(code: str) -> dict[str, object]:
    """What a fresh process prints as its last line, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.strip().splitlines()[-1])


def least_seconds(code: str) -> float:
    """The least processor seconds of some processes that run a piece of code."""
    return min(float(str(run(f"{code}\n{SPENT}print(spent)"))) for _ in range(TIMES))


def modules_of(code: str) -> list[str]:
    """The modules of ours that a piece of code imports."""
    return run(f"{code}\n{OURS}import json; print(json.dumps(ours))")  # type: ignore[return-value]


def files_of(code: str) -> list[str]:
    """The files of ours in which a function is called while a piece of code runs, imports left out."""
    traced = f"""
import json, pathlib, sys, regard
home = str(pathlib.Path(regard.__file__).parent)
{code.partition("#run")[0]}
seen = set()
def called(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(home):
        seen.add(code.co_filename)
sys.setprofile(called)
{code.partition("#run")[2]}
sys.setprofile(None)
print(json.dumps(sorted(name[len(home) + 1 :] for name in seen)))
"""
    return run(traced)  # type: ignore[return-value]


def load(folder: Path) -> str:
    """Code that loads a folder."""
    return f"import regard\nmodel = regard.load({str(folder)!r})\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--output", type=Path)
    chosen = arguments.parse_args()
    bert, translate = FOLDERS / "bert", load(FOLDERS / "transformer") + "model.translate('a')\n"
    nothing, libraries = least_seconds(""), least_seconds(LIBRARIES)
    figures = {
        "modules of ours that regard.load of a BERT imports": len(modules_of(load(bert))),
        "processor seconds of regard.load of a BERT beyond torch": round(
            least_seconds(LIBRARIES + load(bert)) - libraries, 3
        ),
        "processor seconds of import regard beyond Python": round(least_seconds("import regard") - nothing, 3),
        # Once before, so that only calls are counted and not what an import runs.
        "files of ours that load and translate runs through": len(files_of(f"{translate}#run\n{translate}")),
    }
    if chosen.output is None:
        print(json.dumps(figures, indent=2))
        return
    record(
        chosen.output,
        title="What opening a model imports",
        command="python benchmarks/imports.py --output docs/results/imports.json",
        precision="float32",
        seed=None,
        figures=figures,
        target="at most 150 modules, 0.6 s, 0.15 s and 30 files",
        threads=1,
    )


if __name__ == "__main__":
    main()
