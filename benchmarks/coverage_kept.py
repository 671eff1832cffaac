"""Whether the lines that the tests covered before a change of files are covered after it.

    pytest --cov=regard --cov-report=json:before.json ...      in the checkout before, and after.json in the one after
    python benchmarks/coverage_kept.py BEFORE before.json AFTER after.json

Lines are known by the definition that they stand in and by their text, so that moved files do not matter. A line of a definition
that is new, or whose text was changed, is not compared; a line that was covered and is not any more is printed.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from pathlib import Path


def lines_of(root: Path, report: Path) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """How often each line, by definition and text, is covered and is missed."""
    covered: Counter[tuple[str, str]] = Counter()
    missed: Counter[tuple[str, str]] = Counter()
    for name, found in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        if "/src/" not in f"/{name}":
            continue
        path = root / "src" / f"/{name}".partition("/src/")[2]
        text = path.read_text(encoding="utf-8")
        owners = owners_of(ast.parse(text))
        lines = text.splitlines()
        for numbers, counted in ((found["executed_lines"], covered), (found["missing_lines"], missed)):
            for number in numbers:
                if number in owners:
                    counted[owners[number], lines[number - 1].strip()] += 1
    return covered, missed


def owners_of(tree: ast.Module) -> dict[int, str]:
    """The innermost function or class of each line, by its dotted name; lines outside of any are left out."""
    owners: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
                owners.update(dict.fromkeys(range(child.lineno, (child.end_lineno or child.lineno) + 1), inner))
                visit(child, inner)
            else:
                visit(child, name)

    visit(tree, "")
    return owners


def main() -> None:
    before_root, before, after_root, after = map(Path, sys.argv[1:5])
    covered_before, _ = lines_of(before_root, before)
    covered_after, missed_after = lines_of(after_root, after)
    lost = {line for line in covered_before if line in missed_after and line not in covered_after}
    compared = sum(line in covered_after or line in missed_after for line in covered_before)
    for owner, text in sorted(lost):
        print(f"{owner}: {text}")
    print(
        f"{len(covered_before):,} different lines were covered, {compared:,} stand unchanged, {len(lost):,} are covered no more"
    )
    for name, path in (("before", before), ("after", after)):
        totals = json.loads(path.read_text(encoding="utf-8"))["totals"]
        print(f"{name}: {totals['covered_lines']:,} of {totals['num_statements']:,} lines")


if __name__ == "__main__":
    main()
