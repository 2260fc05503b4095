"""One word for one idea: pages, help, messages and docstrings say image where they once said photograph."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "geco").rglob("*.py"))
SCRIPTS = sorted((ROOT / "geco").rglob("*.js"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALLOWED = re.compile(
    r'"photographs(?:_of)?"'  # keys of reports, of published totals and of `geco data check --json`
    r"|`photographs`|--photographs"  # names that are still accepted
    r"|Flickr users' photographs"  # works, of which the licences are
)


def texts(path):
    """(number of the line, text) of what people read: strings and comments of a module, every line of other files."""
    content = path.read_text()
    if path.suffix != ".py":
        return list(enumerate(content.splitlines(), 1))
    read = {tokenize.STRING, tokenize.COMMENT} | {getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in read]


def said(text):
    return re.findall("photograph", ALLOWED.sub("", text), re.IGNORECASE)


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_says_image(path):
    assert not [f"{path.name}:{number}: {text}" for number, text in texts(path) if said(text)]


def test_help_messages_docstrings_and_comments_say_image():
    assert len(SOURCES) > 200
    assert not [f"{path}:{number}: {text}" for path in SOURCES for number, text in texts(path) if said(text)]


def test_what_is_looked_for_is_found(tmp_path):
    assert said("a photograph")
    assert said('counts={"photographs": n}  # Photographs')
    assert not said('counts={"photographs": n}')
    module = tmp_path / "module.py"
    module.write_text('photographs = 1\nhelp = "Photograph."  # of photographs\n')
    assert [number for number, text in texts(module) if said(text)] == [2, 2]
