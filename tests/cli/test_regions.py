"""The command line as a user meets it: real subprocesses for messages and exit codes."""

import csv
import io
import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from typer.testing import CliRunner

from geco.cli import build


def run(*arguments, **options):
    code = "from geco.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def app():
    return build()


@pytest.fixture
def invoke(app, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    return call


@pytest.fixture
def two(image_file):
    return image_file("a.jpg", seed=1), image_file("b.jpg", (80, 100), seed=2)


def test_help_does_not_import_torch():
    code = (
        "import sys\nfrom geco.cli import build\nfrom typer.testing import CliRunner\n"
        "result = CliRunner().invoke(build(), ['--help'])\nassert result.exit_code == 0, result.output\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'cv2', 'numpy', 'peft'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_has_help_with_an_example(app):
    import typer

    def commands(group, path=()):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from commands(command, (*path, name))
            else:
                yield (*path, name), command

    listed = list(commands(typer.main.get_command(app)))
    assert {("match",), ("transfer",), ("heatmap",), ("features",), ("info",), ("gallery",)} <= {
        path for path, _ in listed
    }
    for path, command in listed:
        assert command.help, path
        assert f"geco {' '.join(path)}" in command.help, f"{path} needs an example"


def test_match_writes_a_picture_and_json(invoke, two, tiny_folder, tmp_path):
    result = invoke("match", *two, "-m", tiny_folder, "--size", 112, "--bin", -1, "-o", "out/m.png", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert rows
    assert {"source_x", "source_y", "target_x", "target_y", "score", "visible"} == set(rows[0])
    with Image.open(tmp_path / "out" / "m.png") as picture:
        assert picture.width >= 1000


def test_transfer_takes_points_and_files_and_writes_csv(invoke, two, tiny_folder, tmp_path):
    (tmp_path / "points.csv").write_text("name,x,y\nleft eye,10,20\nnose,30.5,40\n")
    common = ("-m", tiny_folder, "--size", 112)
    result = invoke("transfer", *two, "--points-file", "points.csv", *common, "--csv")
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["name"] for row in rows] == ["left eye", "nose"]
    again = invoke("transfer", *two, "-p", "10,20", "-p", "30.5,40 50,60", *common, "--json")
    found = json.loads(again.stdout)
    assert len(found) == 3
    assert found[0]["target_x"] == float(rows[0]["target_x"])


@pytest.mark.parametrize("mode", ["nearest", "soft", "transport"])
def test_transfer_has_three_modes(invoke, two, tiny_folder, mode):
    result = invoke("transfer", *two, "-p", "10,20", "-m", tiny_folder, "--size", 112, "--mode", mode, "--json")
    assert len(json.loads(result.stdout)) == 1


def test_heatmap_and_features(invoke, two, tiny_folder, tmp_path):
    assert invoke("heatmap", *two, "-p", "10,20", "-m", tiny_folder, "--size", 112).exit_code == 0
    assert (tmp_path / "heatmap.png").is_file()
    assert invoke("features", two[0], "-m", tiny_folder, "--size", 112, "-o", "f.safetensors", "--unit").exit_code == 0
    with safe_open(tmp_path / "f.safetensors", "pt") as file:
        values = file.get_tensor("features")
        assert file.metadata()["height"] == "90"
    assert values.shape == (24, 8, 8)
    torch.testing.assert_close(values.norm(dim=0), torch.ones(8, 8))


def test_features_in_half_precision_are_near_and_said_to_be(invoke, two, tiny_folder, tmp_path):
    maps = {}
    for dtype in ("float32", "bfloat16"):
        result = invoke("features", two[0], "-m", tiny_folder, "--size", 112, "-o", "f.safetensors", "--dtype", dtype)
        assert ("bfloat16" in result.stderr) == (dtype == "bfloat16")
        with safe_open(tmp_path / "f.safetensors", "pt") as file:
            maps[dtype] = file.get_tensor("features")
    assert maps["bfloat16"].dtype == torch.float32
    assert not maps["bfloat16"].equal(maps["float32"])
    assert (maps["bfloat16"] - maps["float32"]).norm() < 0.05 * maps["float32"].norm()
    assert invoke("features", two[0], "-m", tiny_folder, "--dtype", "int8").exit_code == 2


def test_info_lists_versions_device_and_models(invoke):
    facts = json.loads(invoke("info", "--json").stdout)
    assert facts["versions"]["torch"] == torch.__version__
    assert "dinov2-base" in [model["name"] for model in facts["models"]]
    licences = {model["name"]: model["licence"] for model in facts["models"]}
    assert (licences["dino-vitb8"], licences["focus-small"]) == ("Apache-2.0", "MIT")
    assert "focus-small" in invoke("info").output


IN_OPTIONS = (  # what ends with exit code 2
    "no points: give --points x,y",
    "a point is x,y in pixels, like 120,80, got '1;2'",
    "--out must end in .png",
    "expected the name of a file or folder",
)


def test_a_users_mistakes_are_one_line(two, tiny_folder, tmp_path):
    (tmp_path / "cut.jpg").write_bytes(two[0].read_bytes()[:200])
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "bad.csv").write_text("x,y\n1,2\nleft,3\n")
    (tmp_path / "header.csv").write_text("a,b\n1,2\n")
    (tmp_path / "blocked").write_text("a file where a folder should be")
    Image.new("RGB", (1, 1)).save(tmp_path / "one.png")
    good, model = two[0], ("-m", tiny_folder)
    cases = [
        (("match", good, tmp_path / "none.jpg"), "none.jpg: no such file; expected an image"),
        (("match", good, tmp_path / "cut.jpg"), "damaged or cut short"),
        (("match", good, tmp_path / "notes.txt"), "is not an image that can be read"),
        (("match", good, tmp_path / "one.png"), "1×1 pixels; an image needs at least 8"),
        (("match", good, tmp_path), "is a folder; expected an image file"),
        (("transfer", *two, *model), "no points: give --points x,y"),
        (("transfer", *two, *model, "-p", "1;2"), "a point is x,y in pixels, like 120,80, got '1;2'"),
        (
            ("transfer", *two, *model, "-p", "500,2"),
            "point 1 is (500, 2), outside the source image of 120×90",
        ),
        (("transfer", *two, *model, "-p", "nan,2"), "outside the source image"),
        (
            ("transfer", *two, "--points-file", tmp_path / "bad.csv"),
            "bad.csv, line 3: x and y must be numbers, got 'left'",
        ),
        (
            ("transfer", *two, "--points-file", tmp_path / "header.csv"),
            "must start with a header line that has x and y",
        ),
        (("match", *two, "-m", "dinov2-bse"), "did you mean 'dinov2-base'?"),
        (("match", *two, *model, "--device", "gpu0"), "device must be auto, cpu, cuda, cuda:N or mps"),
        (("match", *two, *model, "-o", tmp_path / "blocked" / "x.png"), "blocked"),
        (("match", *two, *model, "-o", tmp_path / "x.docx"), "--out must end in .png"),
        (("match", *two, *model, "-o", two[1]), "is an input and would be overwritten; give another --out"),
        (("match", *two, *model, "-o", ""), "expected the name of a file or folder"),
        (("match", *two, *model, "-o", "-"), "expected the name of a file or folder"),
    ]
    code = (
        "import sys, json, io, contextlib\nfrom geco.cli import main\n"
        "for arguments in json.loads(sys.stdin.read()):\n"
        "    sys.argv = ['geco', *arguments]\n    error = io.StringIO()\n    status = 0\n"
        "    with contextlib.redirect_stderr(error):\n"
        "        try: main()\n        except SystemExit as end: status = end.code\n"
        "    print(json.dumps([status, error.getvalue()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([[str(a) for a in arguments] for arguments, _ in cases]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(answers) == len(cases)
    for (arguments, message), (status, error) in zip(cases, answers, strict=True):
        lines = [line for line in error.splitlines() if line.startswith("error:")]
        in_options = message in IN_OPTIONS
        assert status == (2 if in_options else 1), (arguments, status, error)
        assert len(lines) == 1, (arguments, error)
        assert message in lines[0], (message, lines[0])
        assert "Traceback" not in error


@pytest.mark.skipif(sys.platform == "win32", reason="file sizes can be limited on POSIX systems only")
@pytest.mark.parametrize("command", ["match", "features"])
def test_a_full_disk_is_one_line(two, tiny_folder, tmp_path, command):
    """A limit on the size of files is as near as a test without root gets to a full disk."""
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    images, name = (two, "out.png") if command == "match" else (two[:1], "out.safetensors")
    arguments = [command, *images, "-m", tiny_folder, "--size", "112", "-o", tmp_path / name]
    code = limit + "from geco.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "too large" in done.stderr.splitlines()[-1]


def test_wrong_usage_is_exit_code_two():
    done = run("match", "--colour", "red")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_control_c_says_so_and_exits_130(two, tiny_folder, tmp_path):
    code = (
        "import geco.cli.match as m, time\n"
        "def slow(*a, **k):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "m._read = slow\nfrom geco.cli import main\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "match", *map(str, two)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background inherits an ignored SIGINT, and would hand it on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in error
    assert "Traceback" not in error


def test_debugging_shows_the_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("GECO_DEBUG", "1")
    assert "Traceback" in run("match", tmp_path / "a.jpg", tmp_path / "b.jpg").stderr
