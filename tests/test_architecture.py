"""Imports only point down: the real imports of every module against the table of layers."""

import ast
from pathlib import Path

import geco

ROOT = Path(geco.__file__).parent

LAYERS = {
    0: ("config", "types", "plugins", "potentials", "transport"),
    1: ("geometry", "metrics", "convert", "cards", "hub"),
    2: (
        "images",
        "augment",
        "matching",
        "losses",
        "sampling",
        "pairing",
        "intervals",
        "report",
        "viz",
        "figures",
        "contact",
    ),
    3: ("datasets", "backbones", "benchmarks"),
    4: ("weights", "segmenters", "loading"),
    5: ("model", "masks", "batches", "runs", "steps", "validation"),
    6: ("jobs",),
    7: ("train", "plans", "extract", "export", "api"),
    8: ("cli",),
}
LAYER = {name: layer for layer, names in LAYERS.items() for name in names}
PLUGINS = ("datasets", "backbones", "benchmarks")


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts


def imported(path):
    """Parts of every `geco` module that a file imports, wherever in the file; imports for the type checker are none."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "geco" and len(parts) > 1 and parts[1] != "__version__":
                yield tuple(parts[1:])


def test_every_module_has_a_layer():
    missing = sorted({parts[0] for _, parts in modules()} - set(LAYER))
    assert not missing, f"give {missing} a layer in this file"


def test_imports_only_point_down():
    wrong = []
    for path, parts in modules():
        for target in imported(path):
            same_family = target[0] == parts[0]
            allowed = LAYER[target[0]] < LAYER[parts[0]] or same_family or {target[0], parts[0]} <= set(LAYERS[0])
            if not allowed:
                wrong.append(f"{'.'.join(parts)} imports {'.'.join(target)}")
    assert not wrong, "\n".join(wrong)


def test_plugins_know_neither_another_family_nor_a_model():
    for path, parts in modules():
        if parts[0] in PLUGINS:
            others = {target[0] for target in imported(path)} & {*PLUGINS, "model", "weights"} - {parts[0]}
            assert not others, f"{'.'.join(parts)} imports {others}"


def test_settings_do_not_import_torch():
    for path in (ROOT / "config").glob("*.py"):
        tree = ast.parse(path.read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name for name in names if name.split(".")[0] in ("torch", "numpy", "transformers")}, path.name


def test_library_code_does_not_print():
    for path, parts in modules():
        if parts[0] != "cli":
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_modules_have_a_subject_and_a_reasonable_length():
    for path, _ in modules():
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), f"{path.name}: the first line says the subject"
        assert len(text.splitlines()) <= 400, f"{path.name} is too long; split it by subject"
