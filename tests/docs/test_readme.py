"""The README is true: its Python is executed, and the commands and files it names exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from geco.cli import build

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch, photo, tiny_folder):
    """A folder with the photographs the snippets name, and a tiny encoder where they load the default one."""
    from geco import api
    from geco.models import weights

    for seed, name in enumerate(("lion.jpg", "cheetah.jpg", "photo.jpg")):
        photo(name, (256, 256), seed=seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weights, "default_model", lambda: str(tiny_folder))
    api._loaded.cache_clear()
    yield tmp_path
    api._loaded.cache_clear()


def test_the_python_of_the_readme_runs(workplace):
    snippets = blocks(ROOT / "README.md", "python")
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


def commands():
    for page in PAGES:
        for block in blocks(page, "(?:bash|console|sh)?"):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip().startswith("geco "):
                    yield pytest.param(line.split("#")[0].strip(), id=f"{page.name}: {line.strip()[:60]}")


@pytest.mark.parametrize("line", list(commands()))
def test_the_commands_in_the_documents_exist_with_their_options(line):
    """Every sub-command and every option a document uses is one the command line has."""
    words = shlex.split(line)[1:]
    command = typer.main.get_command(build())
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known | {"--help", "-h"}, f"{line}: {used - known}"


def test_the_commands_of_the_readme_run(workplace):
    for block in blocks(ROOT / "README.md", "bash"):
        for line in block.splitlines():
            words = shlex.split(line.split("#")[0])
            if words[:2] in (
                ["geco", "match"],
                ["geco", "transfer"],
                ["geco", "heatmap"],
                ["geco", "features"],
            ):
                result = CliRunner().invoke(build(), [*words[1:], "--size", "112"], catch_exceptions=False)
                assert result.exit_code == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
