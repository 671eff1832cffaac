"""Sphinx's settings for the documentation site. `make site` builds it; `site/build.py` lays out what Sphinx reads."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
from docutils import nodes
from sphinx.util.docstrings import prepare_docstring

import regard

project = "Regard"
author = "The Regard developers"
copyright = author  # Sphinx's name
release = version = regard.__version__
html_title = f"Regard {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["results/*", "images/*"]
smartquotes = False  # --option stays what is typed
suppress_warnings = ["myst.header"]  # headings of guides may leave out a level

# Pages: links to headings by GitHub's rule, definition lists for options.
myst_enable_extensions = ["deflist", "dollarmath"]
myst_dmath_allow_space = False
myst_heading_anchors = 5

# Docstrings: Google's sections with "Arguments:"; `name` is code, and leads to what it names where that is documented.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["What tables cannot say", "Of the tensors"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it is fetched, which a browser refuses on a disk
html_theme_options = {
    "navigation_with_keys": False,
    "light_css_variables": {
        "color-brand-primary": "#7a4a00",
        "color-brand-content": "#7a4a00",
        "color-brand-visited": "#6a4a6a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#f0b060",
        "color-brand-content": "#f0b060",
        "color-brand-visited": "#d0a0d0",
    },
}
pygments_style = "default"
pygments_dark_style = "github-dark"

CODE = re.compile(r"(``[^`]+``|`[^`\n]+(?:\n[^`\n]+)?`)")
EQUATION = re.compile(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
MARKUP = re.compile(r"(?<![\w*])(\*[A-Za-z](?:[\w -]*[A-Za-z])?\*)(?![\w*])|[*|]|(?<=\w)_(?!\w)")
SECTION = re.compile(r"\w[\w ]*:\n\n\Z")


def as_written(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain sentences in which backticks alone are markup: what reStructuredText would read is escaped.

    An indented paragraph is an equation, kept as it is.
    """
    of_its_type = type(obj).__doc__
    if what == "data" and isinstance(of_its_type, str) and lines == prepare_docstring(of_its_type):
        lines.clear()  # a constant without words of its own has those of its type
        return
    shown = []
    parts = EQUATION.split("\n".join(lines) + "\n")
    for place, part in enumerate(parts):
        if place % 2 and not SECTION.search(parts[place - 1]):
            shown.append(f".. code-block:: text\n\n{part}\n")
        else:
            pieces = CODE.split(part)
            shown += [as_code(piece) if at % 2 else escaped(piece) for at, piece in enumerate(pieces)]
    lines[:] = "".join(shown).split("\n")
    if what in ("class", "exception", "function"):
        lines += ["", f":Source: ``{place_of(obj)}``"]


def place_of(obj: Any) -> str:
    """The file and line where a class or function is defined, from the folder that holds the package."""
    file = Path(inspect.getsourcefile(inspect.unwrap(obj)) or "")
    return f"{file.relative_to(Path(regard.__file__).parents[1]).as_posix()}:{inspect.getsourcelines(obj)[1]}"


def as_code(part: str) -> str:
    """Code in backticks: a role where it may be a name, a literal otherwise; it may end inside a word, as in `name`s."""
    inner = part.strip("`")
    return f":py:obj:`{inner}`\\ " if re.fullmatch(r"[A-Za-z_][\w.]*", inner) else f"``{inner}``\\ "


def escaped(part: str) -> str:
    """Text outside code: bars, underscores at a word's end and stars that are not around *words* are themselves."""
    return "\n".join(
        line
        if line.lstrip().startswith((">>>", "..."))
        else MARKUP.sub(lambda found: found[1] or f"\\{found[0]}", line)
        for line in part.split("\n")
    )


def not_ours(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Methods that another library hung on a class are described there."""
    home = getattr(obj, "__module__", None) or "regard"
    return None if home.startswith("regard") or inspect.isclass(obj) else True


def equation(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """An equation as MathML, which browsers draw by themselves: no script, no font from elsewhere."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    written = node.astext()
    for unknown, known in ((r"\arg", r"\operatorname{arg}"), ("{aligned}", "{align*}")):  # to latex2mathml
        written = written.replace(unknown, known)
    drawn = latex2mathml.converter.convert(written, display=display)
    translator.body.append(drawn if display == "inline" else f'<div class="equation">{drawn}</div>\n')
    raise nodes.SkipNode


def with_dashes(app: Any, doctree: nodes.document, name: str) -> None:
    """What Sphinx puts between an argument and what is said of it is two hyphens; a dash is meant."""
    for text in list(doctree.findall(nodes.Text)):
        if text.astext() == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (equation, None), (equation, None))
    app.connect("autodoc-process-docstring", as_written, priority=100)  # before napoleon's, 500
    app.connect("autodoc-skip-member", not_ours)
    app.connect("doctree-resolved", with_dashes)
