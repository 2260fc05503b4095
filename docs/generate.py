"""Writes the generated pages: reference, tutorials, and copies of the README's table of results.

    python docs/generate.py              # everything; tutorials are executed, which takes some minutes
    python docs/generate.py reference results

`tests/docs/test_generated.py` fails when a page differs from what it is generated from.
"""

import argparse
import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import tutorials

import geco

DOCS = Path(__file__).parent
PACKAGE = Path(geco.__file__).parent
ASSETS = PACKAGE / "assets"
CARD = ASSETS / "geco-s" / "README.md"
NOT_ROOMS = ("assets", "cli", "datasets")  # files, commands (geco --help) and plug-ins (datasets.md)
MODULES = ("types", "geometry", "images", "batching", "errors", "checks", "decoding")  # public modules beside the rooms
NAVIGATION = "      - reference/index.md  # the pages below are written by docs/generate.py\n"
START, END = "<!-- results: copied into docs/ by docs/generate.py -->", "<!-- end of results -->"


def rooms() -> list[str]:
    """Names of the subpackages (rooms)."""
    found = (path.parent.name for path in sorted(PACKAGE.glob("*/__init__.py")))
    return [name for name in found if name not in NOT_ROOMS]


def public_names(module: str) -> list[str]:
    """The names that a package exports, or that a module defines, in the order of its source."""
    imported = importlib.import_module(module)
    if hasattr(imported, "__all__"):
        return list(imported.__all__)
    tree = ast.parse(inspect.getsource(imported))
    names = [name for node in tree.body for name in _defined(node) if not name.startswith("_")]
    return [name for name in names if not name.isupper()]


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def is_documented_object(value: object) -> bool:
    """Whether a public name has a docstring of its own: a function, a class or a module, not a constant or an alias."""
    return inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)


def constant(module: str, name: str) -> tuple[str, str]:
    """(definition, comment) of a constant or a type alias, from the source of the module that defines it."""
    home, original = _home(module, name)
    source = inspect.getsource(importlib.import_module(home))
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if original in _defined(node):
            definition = ast.unparse(node)
            last = lines[(node.end_lineno or 1) - 1]
            above = lines[node.lineno - 2] if node.lineno > 1 else ""
            comment = last.partition("  # ")[2] or (above.removeprefix("# ") if above.startswith("# ") else "")
            return definition if len(definition) < 100 else f"{original} = …", comment.strip()
    raise LookupError(f"{module}.{name} is not defined in {home}")


def _home(module: str, name: str) -> tuple[str, str]:
    """Module and name where the exported `name` is defined."""
    package = PACKAGE.joinpath(*module.split(".")[1:])
    source = (package / "__init__.py" if package.is_dir() else package.with_suffix(".py")).read_text()
    for line in ast.walk(ast.parse(source)):
        if isinstance(line, ast.ImportFrom) and line.module:
            for alias in line.names:
                if (alias.asname or alias.name) == name:
                    return line.module, alias.name
    return module, name


def reference_page(module: str) -> str:
    """The page of one room or module: its first docstring, then every public name."""
    imported = importlib.import_module(module)
    about = inspect.cleandoc(imported.__doc__ or "")
    text = about if module != "geco" else about.splitlines()[0]
    parts = [f"# {module}", text]
    constants = []
    for name in public_names(module):
        value = getattr(imported, name)
        if inspect.ismodule(value):
            parts.append(f"::: {value.__name__}\n    options:\n      show_root_heading: true\n      members: true")
        elif is_documented_object(value) and getattr(value, "__module__", "").startswith("geco"):
            home = ".".join(_home(module, name))
            renamed = "" if home.endswith(f".{name}") else f"\n    options:\n      heading: {name}"
            parts.append(f"::: {home}{renamed}")
        else:
            definition, comment = constant(module, name)
            constants.append(f"| `{definition.replace('|', chr(0x2502))}` | {comment} |")
    if constants:
        parts += ["## Constants and aliases", "\n".join(["| definition | meaning |", "|---|---|", *constants])]
    return "\n\n".join(parts) + "\n"


def reference() -> dict[Path, str]:
    """Path → content of every page of the reference."""
    names = ["geco", *(f"geco.{name}" for name in (*rooms(), *MODULES))]
    pages = {DOCS / "reference" / f"{name.rpartition('.')[2]}.md": reference_page(name) for name in names}
    rows = [f"| [`{name}`]({name.rpartition('.')[2]}.md) | {_first_line(name)} |" for name in names]
    overview = ["# Reference", "One page for each room of the package, made from its docstrings."]
    overview.append("\n".join(["| import | what it holds |", "|---|---|", *rows]))
    pages[DOCS / "reference" / "index.md"] = "\n\n".join(overview) + "\n"
    return pages


def navigation() -> dict[Path, str]:
    """The site's configuration with every page of the reference in its navigation."""
    path = DOCS.parent / "mkdocs.yml"
    text = path.read_text()
    names = ["geco", *(f"geco.{name}" for name in (*rooms(), *MODULES))]
    lines = "".join(f"      - {name}: reference/{name.rpartition('.')[2]}.md\n" for name in names)
    start = text.index(NAVIGATION) + len(NAVIGATION)
    return {path: text[:start] + lines + text[text.index("  - Results:") :]}


def _first_line(module: str) -> str:
    return (importlib.import_module(module).__doc__ or "").strip().splitlines()[0]


def results() -> dict[Path, str]:
    """Path → content of the pages that show the README's table of results; and of the models' cards."""
    readme = (DOCS.parent / "README.md").read_text()
    table = readme[readme.index(START) : readme.index(END)]
    pages = {path: _with_table(path.read_text(), table) for path in (DOCS / "results.md", CARD)}
    for card in sorted(ASSETS.glob("*/README.md")):
        text = pages.get(card) or card.read_text()
        pages[DOCS / f"model-{card.parent.name}.md"] = text.split("---\n", 2)[2].lstrip()  # without the metadata
    return pages


def _with_table(text: str, table: str) -> str:
    return text[: text.index(START)] + table + text[text.index(END) :]


def main() -> None:
    """Write the pages that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="*", default=[], metavar="reference|results|tutorials")
    wanted = parser.parse_args().what or ["reference", "results", "tutorials"]
    made = {"reference": lambda: {**reference(), **navigation()}, "results": results, "tutorials": tutorials.pages}
    for name in wanted:
        for path, text in made[name]().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
