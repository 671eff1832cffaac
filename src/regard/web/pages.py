"""HTML pages from templates, style sheets and ES modules.

Files in `static/` are served as they are: ES modules that import each other by relative paths, without a build step. An offline
page must be a single file under a policy that allows no other address, in which a module cannot import anything. So the modules
that it needs are bundled (`bundled`): each becomes a function that returns its exports, in the order of the imports. This works
without a parser for a small subset of the language, which is checked:

- imports are at the start of a line and name what they import: `import { a, b as c } from "./file.js";`
- exports are declarations: `export const`, `export function`, `export async function`, `export class`;
- comments that begin with `/**` hold types for readers and checkers of the source, and are left out of the page.

Templates are Jinja2's, with every value escaped. The page's policy has the digest of its only script, so nothing else can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"\n]*)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) ([A-Za-z_$][\w$]*))", re.MULTILINE)
TYPES = re.compile(r"^[ \t]*/\*\*.*?\*/\n|/\*\*.*?\*/ ?", re.MULTILINE | re.DOTALL)
LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def page(
    name: str, parts: Mapping[str, Any], *, data: Any = None, styles: Sequence[str] = (), served: str | None = None
) -> str:
    """A complete HTML page, offline unless `served` is given.

    The template is `templates/NAME.html`, the style sheets are `static/shell.css` and `styles`, and the script, which mounts the
    view on the page's body, is `static/pages/NAME.js`.

    Arguments:
        name: such as `viewer`, `walk`, `report`, `questionnaire` or `map`.
        parts: the template's variables; all text is escaped.
        data: for the script, as JSON in the page.
        styles: further style sheets.
        served: the address under which a server has the files of `static/`; None to put them into the page.
    """
    program = f"pages/{name}.js"
    sheets = ("shell.css", *styles)
    if served is None:
        script = f"\n{bundled(program)}"
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        style = "\n".join(asset(f"static/{sheet}") for sheet in sheets)
    else:
        script, style = "", ""
        allowed = "style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'"
    return (
        _templates()
        .get_template(f"{name}.html")
        .render(
            **parts,
            policy=f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
            style=_safe(style),
            script=_safe(script),
            data=None if data is None else _safe(json_in_script(data)),
            served=served,
            sheets=sheets,
            program=program,
        )
    )


def bundled(program: str) -> str:
    """A module of `static/` and everything it imports, as one script.

    Raises:
        ValueError: for an import or export outside the subset, and for circular imports.

    >>> bundled("pages/report.js").startswith('"use strict";')
    True
    """
    names: dict[str, str] = {}
    parts = ['"use strict";']

    def add(path: str, above: tuple[str, ...]) -> str:
        if path in above:
            raise ValueError(f"modules import each other in a circle: {' -> '.join((*above, path))}")
        if path not in names:
            text = TYPES.sub("", asset(f"static/{path}"))
            taken = []
            for wanted, source in IMPORT.findall(text):
                name = add(normpath(join(dirname(path), source)), (*above, path))
                bindings = ", ".join(part.strip().replace(" as ", ": ") for part in wanted.split(",") if part.strip())
                taken.append(f"const {{ {bindings} }} = {name};\n")
            given = EXPORT.findall(text)
            body = EXPORT.sub("", IMPORT.sub("", text))
            if left := LEFT.search(body):
                raise ValueError(f"{path}: {left[0]!r} is outside the subset of modules that a page can be made of")
            names[path] = f"module{len(names)}"
            parts.append(
                f"// {path}\nconst {names[path]} = (() => {{\n{''.join(taken)}{body}return {{ {', '.join(given)} }};\n}})();"
            )
        return names[path]

    add(program, ())
    return "\n".join(parts) + "\n"


def asset(name: str) -> str:
    """The text of a file of this package."""
    return resources.files("regard.web").joinpath(name).read_text(encoding="utf-8")


def json_in_script(value: Any) -> str:
    r"""JSON that is safe inside a script element.

    Only "<" could end the element; ">" and "&" are escaped too, for lenient HTML parsers.

    >>> print(json_in_script(["</script>"]))
    ["\u003c/script\u003e"]
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def framed(page: str, title: str, *, height: int, allowed: str = "allow-scripts") -> str:
    """A page in a sandboxed frame, for a notebook; the page cannot access the notebook.

    Arguments:
        page: the complete page.
        title: as plain text.
        height: of the frame, in CSS pixels.
        allowed: the frame's sandbox permissions.
    """
    return fragment("frame", {"page": page, "title": title, "height": height, "allowed": allowed})


def fragment(name: str, parts: Mapping[str, Any]) -> str:
    """A fragment of HTML from `templates/NAME.html`, such as for a notebook; all text in `parts` is escaped."""
    return _templates().get_template(f"{name}.html").render(**parts)


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values as a table of two columns, for a notebook's `_repr_html_`.

    >>> html_table([("loss", "< 1")])
    '<table><tbody><tr><th style="text-align:left">loss</th><td style="text-align:left">&lt; 1</td></tr></tbody></table>'
    """
    return fragment("table", {"rows": list(rows)})


def signed_colours() -> tuple[str, str]:
    """The colours of negative and positive numbers, as six hexadecimal digits, from the style sheet of all pages.

    >>> below, above = signed_colours()
    >>> len(below), len(above)
    (6, 6)
    """
    sheet = asset("static/shell.css")
    colours = dict(
        reversed(re.findall(r"--(negative|positive): #([0-9a-f]{6});", sheet))
    )  # reversed, so that the light theme's, which come first, are kept
    return colours["negative"], colours["positive"]


def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("regard.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _safe(text: str) -> Any:
    """Text of this package that a template must not escape."""
    from markupsafe import Markup

    return Markup(text)
