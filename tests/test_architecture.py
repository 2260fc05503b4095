"""The laws of the house, read from the real imports: layers, doors, who may know models, no torch behind settings.

`python tests/test_architecture.py` writes the table of layers into CONTRIBUTING.md.
"""

import ast
import builtins
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import geco

ROOT = Path(geco.__file__).parent
REPOSITORY = Path(__file__).parents[1]
LAYERS = {
    0: ("errors", "checks", "types", "batching", "geometry", "decoding", "images", "system"),  # and every `settings.py`
    1: ("transport", "viz", "masks", "backbones"),
    2: ("data", "matching", "losses", "models"),
    3: ("datasets", "extraction", "propagation", "pose", "export"),
    4: ("search",),
    5: ("evaluation",),
    6: ("training",),
    7: ("api",),
    8: ("demo", "interop"),
    9: ("cli",),
    10: ("__main__",),
}
LAYER = {room: layer for layer, rooms in LAYERS.items() for room in rooms}
KNOW_MODELS = {"models", "training", "export", "api", "demo", "interop", "cli"}
PLUGINS = ("datasets", "backbones")
LONGEST = 310  # lines of a module


def modules():
    """(path, parts of its name) of every module, the package itself left out."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts[:-1] if parts[-1] == "__init__" else parts


@cache
def imported(path, *, typing=False):
    """(module, name or None) of every import of geco in a file; those for the type checker only if asked for."""
    tree = ast.parse(path.read_text())
    skipped = set()
    if not typing:
        blocks = [block for block in ast.walk(tree) if isinstance(block, ast.If) and _is_for_typing(block)]
        skipped = {id(node) for block in blocks for node in ast.walk(block)}
    imports = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            imports += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            imports += [(node.module, alias.name) for alias in node.names]
    return [(module, name) for module, name in imports if module.split(".")[0] == "geco"]


def _is_for_typing(block):
    return "TYPE_CHECKING" in ast.dump(block.test)


def target_of(module, name):
    """Parts of what an import reaches: ("matching",) for a door, ("matching", "settings") for settings, …"""
    parts = tuple(module.split(".")[1:])
    return parts or ((name,) if name in LAYER else ())


def layer_of(parts):
    return 0 if parts[-1] == "settings" else LAYER[parts[0]]


@cache
def door_names(room):
    """Names in the `if TYPE_CHECKING:` block of a room's door."""
    path = ROOT / room / "__init__.py"
    blocks = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If) and _is_for_typing(node)]
    return {
        alias.asname or alias.name: line.module
        for block in blocks
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def is_room(name):
    return (ROOT / name / "__init__.py").is_file()


def through_the_door(module, name):
    """Whether an import enters a room by its door or its settings, and not deeper."""
    parts = target_of(module, name)
    if not parts or not is_room(parts[0]):
        return True
    if len(parts) > 1:
        return parts[1:] == ("settings",)
    if module == "geco" or name is None or name == "settings":
        return True
    return name in door_names(parts[0]) or parts[0] == "cli"


def test_every_module_has_a_layer():
    missing = sorted({parts[0] for _, parts in modules()} - set(LAYER))
    assert not missing, f"give {missing} a layer in this file"


def test_imports_only_point_down():
    wrong = []
    for path, parts in modules():
        for module, name in imported(path):
            target = target_of(module, name)
            target = (*target, "settings") if name == "settings" else target
            if not target or target[0] == parts[0]:
                continue
            both_at_the_bottom = {target[0], parts[0]} <= set(LAYERS[0])
            if not (layer_of(target) < layer_of(parts) or both_at_the_bottom or layer_of(target) == 0):
                wrong.append(f"{'.'.join(parts)} imports {'.'.join(target)}")
    assert not wrong, "\n".join(wrong)


def test_rooms_are_entered_through_their_doors():
    wrong = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path, parts in modules()
        for module, name in imported(path, typing=path.name != "__init__.py")
        if target_of(module, name)[:1] != parts[:1] and not through_the_door(module, name)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ["speed", "docs", "examples"])
def test_scripts_use_what_a_user_has(folder):
    """No underscored module or name, and nothing behind a door."""
    for path in (REPOSITORY / folder).rglob("*.py"):
        for module, name in imported(path):
            assert through_the_door(module, name), f"{path}: from {module} import {name}"
            assert not any(part.startswith("_") for part in (*module.split("."), name or "")), path


def test_only_these_know_models():
    knowing = {parts[0] for path, parts in modules() for m, n in imported(path) if target_of(m, n) == ("models",)}
    assert knowing <= KNOW_MODELS, knowing - KNOW_MODELS


def test_plugins_know_neither_another_family_nor_a_model():
    for path, parts in modules():
        if parts[0] in PLUGINS:
            others = {target_of(*entry)[0] for entry in imported(path) if target_of(*entry)} - {parts[0]}
            assert not others & {*PLUGINS, "models"}, f"{'.'.join(parts)} imports {others}"
        elif parts[0] != "models":
            named = [entry for entry in imported(path) if target_of(*entry)[:1] in (("datasets",), ("backbones",))]
            assert not named, f"{'.'.join(parts)} names a plug-in: {named}"


def test_settings_do_not_import_torch():
    names = [".".join(("geco", *parts)) for _, parts in modules() if parts[-1] == "settings"]
    assert len(names) >= 7
    code = f"import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "numpy", "transformers", "matplotlib"} & set(done.stdout.split())


@pytest.mark.parametrize("room", sorted(name for name in LAYER if is_room(name) and name not in ("cli", "datasets")))
def test_a_door_leads_to_what_it_names(room):
    package = importlib.import_module(f"geco.{room}")
    submodules = {path.stem for path in (ROOT / room).iterdir() if path.suffix == ".py" or path.is_dir()}
    assert package.__all__, f"the door of {room} names nothing"
    for name, home in door_names(room).items():
        assert getattr(package, name) is not None
        assert not name.startswith("_")
        # Once imported, a submodule hides a name of the door: they may only be the same thing.
        assert name not in submodules or home == f"geco.{room}", f"{room}.{name} is a module and something else"


def test_library_code_does_not_print():
    for path, parts in modules():
        if parts[0] != "cli":
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_errors_are_ours():
    """What a user can mend is a GecoError; other kinds are left to Python's own protocols, and to bugs."""
    for path, parts in modules():
        raised = [
            node.exc for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise) and node.exc
        ]
        called = [entry.func for entry in raised if isinstance(entry, ast.Call)]
        kinds = {func.id for func in called if isinstance(func, ast.Name) and func.id[0].isupper()}
        builtin = {kind for kind in kinds if hasattr(builtins, kind)} - {"AttributeError", "IndexError", "SystemExit"}
        assert not builtin or parts == ("system", "lazy"), f"{path}: raise {', '.join(builtin)}; see geco/errors.py"


def test_modules_have_a_subject_and_a_reasonable_length():
    for path, _ in modules():
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), f"{path.name}: the first line says the subject"
        assert len(text.splitlines()) <= LONGEST, f"{path} has {len(text.splitlines())} lines; split it by subject"


# --- the copy in CONTRIBUTING.md --------------------------------------------------------------------------------------

START, END = "<!-- layers: written by tests/test_architecture.py -->", "<!-- end of layers -->"


def layer_table():
    """The table of layers in Markdown, with what each room says of itself."""
    rows = ["| layer | room | what it is |", "|---|---|---|"]
    for layer, rooms in LAYERS.items():
        for room in rooms:
            path = ROOT / room / "__init__.py" if is_room(room) else ROOT / f"{room}.py"
            about = ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]
            rows.append(f"| {layer} | `{room}{'/' if is_room(room) else ''}` | {about} |")
    return "\n".join(rows)


def contributing():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    start, end = text.index(START) + len(START), text.index(END)
    return text, start, end


def test_contributing_shows_the_layers():
    text, start, end = contributing()
    assert text[start:end].strip() == layer_table(), "run `python tests/test_architecture.py` and commit the result"


if __name__ == "__main__":
    text, start, end = contributing()
    (REPOSITORY / "CONTRIBUTING.md").write_text(f"{text[:start]}\n{layer_table()}\n{text[end:]}")
