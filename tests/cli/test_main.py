"""The command line as a whole: exit codes, --version, --quiet, --debug, and names that look like markup."""

import json
import subprocess
import sys

import pytest

import geco
from geco import cli
from geco.cli import run
from geco.errors import InputError


def broken(error):
    """A command that ends with this error."""

    def build(only=None):
        import typer

        app = typer.Typer(name="geco")

        @app.callback()
        def everywhere(quiet: bool = False, debug: bool = False) -> None:
            """Nothing."""

        @app.command()
        def fail() -> None:
            """Fail."""
            raise error

        return app

    return build


def test_version_and_module():
    done = subprocess.run([sys.executable, "-m", "geco", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"geco {geco.__version__}\n")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("sizes are above 0,\n got -1"), 1, "error: sizes are above 0, got -1\n"),
        (cli.OptionError("a point is x,y"), 2, "error: a point is x,y\n"),
        (
            PermissionError(13, "Permission denied", "out.png"),
            1,
            "error: out.png: permission denied; check the path, its permissions and the space left\n",
        ),
        (MemoryError(), 1, "error: out of memory; use a smaller --size, or fewer images at once\n"),
        (
            ZeroDivisionError("division by zero"),
            1,
            "error: unexpected ZeroDivisionError: division by zero; this is a bug of geco: please report it with what "
            "--debug shows\n",
        ),
        (KeyboardInterrupt(), 130, "stopped: interrupted; what was finished has been kept\n"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(monkeypatch, capfd, error, code, message):
    monkeypatch.setattr(cli, "build", broken(error))
    assert run(["fail"]) == code
    assert capfd.readouterr().err == message


def test_debug_shows_where_an_error_comes_from(monkeypatch):
    monkeypatch.setattr(cli, "build", broken(ZeroDivisionError("division by zero")))
    with pytest.raises(ZeroDivisionError):
        run(["fail", "--debug"])


def test_mistakes_in_options_are_one_line_and_exit_code_2(capsys):
    for arguments in (["nonsense"], ["match"], ["match", "--nonsense"], ["match", "a", "b", "--size", "x"]):
        assert run(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert line.endswith("--help")


def test_quiet_leaves_results_and_errors(image_file, tiny_folder, tmp_path, capsys):
    first, second = image_file("a.jpg", seed=1), image_file("b.jpg", seed=2)
    words = [
        "transfer",
        str(first),
        str(second),
        "-m",
        str(tiny_folder),
        "--size",
        "112",
        "-o",
        str(tmp_path / "o.png"),
    ]
    for arguments in (["--quiet", *words], [*words, "--quiet"]):
        assert run([*arguments, "-p", "30,40", "--json"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert len(json.loads(shown.out)) == 1
    assert run([*words, "-p", "x", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: a point is x,y")
    assert run([*words, "-p", "30,40"]) == 0
    assert "1 matches; picture: " in capsys.readouterr().err


def test_names_are_text_and_never_markup(image_file, tiny_folder, tmp_path, capsys):
    """Square brackets are markup of the terminal, dollars of the pictures."""
    (tmp_path / "[/b]$x$").mkdir(parents=True)  # a folder in the folder `[`
    first = image_file("[/b]$x^.jpg", seed=1)
    (tmp_path / "points.csv").write_text("x,y,name\n30,40,$\\frac{\n50,20,[red]eye[/]\n")
    out = tmp_path / "[/b]$x$" / "$\\a[bold].png"
    words = [str(first), str(first), "-m", str(tiny_folder), "--size", "112", "-o", str(out)]
    assert run(["transfer", *words, "--points-file", str(tmp_path / "points.csv"), "--csv"]) == 0
    shown = capsys.readouterr()
    assert f"picture: {out}" in shown.err
    assert "[red]eye[/]" in shown.out
    assert out.read_bytes().startswith(b"\x89PNG")
    assert run(["match", str(tmp_path / "[/none].jpg"), str(first)]) == 1
    assert "[/none].jpg: no such file" in capsys.readouterr().err


def test_the_shell_can_complete_commands():
    environment = {"_GECO_COMPLETE": "complete_bash", "COMP_WORDS": "geco tra", "COMP_CWORD": "1", "PATH": "/usr/bin"}
    code = "import sys; sys.argv = ['geco']; from geco.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert {"transfer", "train"} <= set(done.stdout.split())
