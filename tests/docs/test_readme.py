"""The README is true: its Python and its commands are executed exactly as printed, and what it names exists.

The commands share one folder, as a reader's would; a small random model stands in for the default one where its answers
do not matter, and made-up datasets for the real ones. The lines that set up an environment are run by `make
release-check` and by continuous integration.
"""

import importlib
import importlib.util
import re
import shlex
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import typer
from dataset_trees import write_birds
from modelled import animal
from tiny_model import fresh

from geco.cli import build, run
from geco.models import weights

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SETTING_UP = ("pip", "make")

needs_examples = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="needs the example images (pip install --no-deps gradio)"
)


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def lines_of(path):
    """(line, its words) of every command in the blocks of a page that are for a shell."""
    for block in blocks(path, "(?:bash|console|sh)"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield line, words


# --- the README, from its first line to its last -------------------------------------------------------------------


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, tiny_folder):
    """A reader's folder: the example images, a mesh, a dataset, and an adapter to stand in for the default model."""
    import trimesh

    folder = tmp_path_factory.mktemp("reader")
    write_birds(folder / "data" / "CUB_200_2011", count=8)
    mesh = animal()
    trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(folder / "cat.ply")
    fresh(tiny_folder).save_pretrained(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "figures")
        importlib.import_module("rendered").write(folder / "my-animal", 16)
    with standing_in(folder):
        assert run(["examples", "photos"]) == 0
    return folder


@contextmanager
def standing_in(folder, model=None):
    """Within it, the folder is the current one, and `model` the default model."""
    from geco import api

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if model is not None:
            patch.setattr(weights, "default_model", lambda: str(model))
            patch.setenv("GECO_CACHE", str(folder / "cache"))
        api._loaded.cache_clear()
        yield
        api._loaded.cache_clear()


@needs_examples
def test_the_first_snippet_finds_the_nose_and_says_that_the_tail_is_hidden(workplace, capsys):
    first = blocks(README, "python")[0]
    names = {}
    with standing_in(workplace):
        exec(compile(first, "README.md", "exec"), names)
    nose, tail = capsys.readouterr().out.splitlines()
    x, y = map(int, re.findall(r"\d+", nose))
    assert nose.startswith("nose (")
    assert abs(x - 125) < 20
    assert abs(y - 147) < 20
    assert tail == "tail tip not visible"


@needs_examples
def test_the_other_snippets_run(workplace):
    snippets = blocks(README, "python")[1:]
    assert snippets
    with standing_in(workplace):
        for snippet in snippets:
            exec(compile(snippet, "README.md", "exec"), {})


@needs_examples
def test_the_commands_run_as_printed(workplace, monkeypatch, capfd):
    """All of them, in their order: what one writes, a later one may read. Random features need not find a pose."""
    from geco import demo

    served = demo.Served("http://127.0.0.1:7860/", None, lambda: None, lambda: None)
    monkeypatch.setattr("geco.demo.page.serve", lambda studio, *, open_browser: served)
    commands = [(line, words) for line, words in lines_of(README) if words[0] not in SETTING_UP]
    assert len(commands) >= 15
    with standing_in(workplace, workplace / "tiny"):
        for line, words in commands:
            assert words[0] == "geco", line
            code = run(words[1:])
            said = capfd.readouterr().err
            assert code == 0 or (words[1] == "pose" and "no pose found" in said), f"{line}\n{said}"
    for written in ("match.png", "eyes.csv", "lion.safetensors", "all.json", "geco-s.onnx", "runs/cub/index.html"):
        assert (workplace / written).exists(), written


def test_what_the_readme_makes_can_be_made():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = [words[1] for _, words in lines_of(README) if words[0] == "make"]
    assert made == ["demo", "test"]
    assert set(made) <= set(targets)


def test_the_badges_are_true():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python, licence = re.findall(r"badge/(?:python|licence)-([^)]*)-blue", README.read_text())
    assert python == f"%E2%89%A5%20{project['requires-python'].removeprefix('>=')}"
    assert licence.replace("--", "-") == project["license"]


# --- every page ----------------------------------------------------------------------------------------------------


def commands():
    for page in PAGES:
        for line, words in lines_of(page):
            if words[0] == "geco":
                yield pytest.param(words[1:], id=f"{page.name}: {line.strip()[:60]}")


@cache
def whole_command():
    return typer.main.get_command(build())


@pytest.mark.parametrize("words", list(commands()))
def test_the_commands_in_the_documents_exist_with_their_options(words):
    """Every sub-command and every option a document uses is one the command line has."""
    line = shlex.join(words)
    command = whole_command()
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known | {"--help", "-h"}, f"{line}: {used - known}"


def anchors(page):
    """The anchors of a page's headings, as the site and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        place = (page.parent / target) if target else page
        assert place.exists(), f"{page.name}: {link}"
        assert not anchor or place.suffix != ".md" or anchor in anchors(place), f"{page.name}: no heading for {link}"
