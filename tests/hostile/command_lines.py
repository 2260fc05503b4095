"""Hostile command lines: a valid line of every command, with options, values and files that make no sense.

`python tests/hostile/command_lines.py` (make hostile) runs a sample of them as real processes, as a user would.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import typer

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]  # its helpers, when run as a script

LONGEST = 300  # characters of a message
TEXTS = (
    "",
    "-",
    "nan",
    "inf",
    "-1",
    "0",
    "1e400",
    "9" * 400,
    "0x10",
    "None",
    "[/b].png",
    "$x$",
    "a\nb",
    "../../..",
    "/dev/null",
    "/dev/zero",
    "~nobody",
    "💥",
    "x" * 5000,
    "%s{0}",
    "key=value",
    "a=b=c",
    ",",
    "1,2,3",
    "nan,nan",
    "1,",
    "*",
    "cut.jpg",
    "page.jpg",
    "pointer.safetensors",
    "empty.json",
    "folder.jpg",
)


@dataclass(frozen=True)
class Place:
    """A folder with everything that the valid lines name."""

    root: Path
    model: Path

    def lines(self) -> dict[str, list[str]]:
        """A valid line of every command, as fast as it can be."""
        small = ["-m", str(self.model), "--size", "56"]
        squares = f"spair={self.root / 'squares'}"
        return {
            "match": ["match", "a.jpg", "b.jpg", *small, "-o", "out/m.png"],
            "transfer": ["transfer", "a.jpg", "b.jpg", "-p", "30,40", *small, "-o", "out/t.png", "--json"],
            "heatmap": ["heatmap", "a.jpg", "b.jpg", "-p", "30,40", *small, "-o", "out/h.png"],
            "features": ["features", "a.jpg", *small, "-o", "out/f.safetensors"],
            "extract": ["extract", "a.jpg", "b.jpg", *small, "-o", "out/collection", "--json"],
            "parts": ["parts", "a.jpg", "b.jpg", "--labels", "labels.png", *small, "-o", "out/parts"],
            "propagate": ["propagate", "animals.csv", "b.jpg", *small, "-o", "out/all.json", "--review", "--json"],
            # --dry-run stands where it is replaced, not dropped: without it the page would be served for ever.
            "app": ["app", "--dry-run", *small, "--no-browser"],
            "data check": ["data", "check", "spair", "squares", "--split", "val", "--fast", "--json"],
            "data list": ["data", "list", "--json"],
            "data prepare": ["data", "prepare", "ap10k", "squares"],
            "masks": ["masks", "spair", "squares", "--split", "val", "--limit", "1", "--sheet", "0", "-o", "out/masks"],
            "evaluate keypoints": [
                "evaluate",
                "keypoints",
                "spair",
                "squares",
                "--split",
                "val",
                "--limit",
                "1",
                *small,
            ],
            "evaluate fewshot": [
                *("evaluate", "fewshot", "spair", "squares", "--split", "val"),
                *("--references", "1", "--draws", "1", "--targets", "1", *small),
            ],
            "decorate": ["decorate", "box.obj", *small, "--views", "2", "--vertices", "40", "-o", "out/b.safetensors"],
            "pose": ["pose", "box.obj", "a.jpg", *small, "--views", "2", "--vertices", "40", "-o", "out/p.png"],
            "bench": ["bench", "-m", str(self.model), "--sizes", "56", "--batches", "1", "--repeats", "1"],
            "export": ["export", "-o", "out/e.xml", *small, "--images", "a.jpg", "--fixed"],
            "report": ["report", "run"],
            "table": [
                *("table", str(self.model), "--data", squares, "--split", "val"),
                *("--limit", "1", "--size", "56", "--repeats", "0", "-o", "out/table"),
            ],
            "train": ["train", "--data", squares, "-m", str(self.model), "--size", "98", "--dry-run", "-o", "out/run"],
            "adapt": ["adapt", "animals.json", "-m", str(self.model), "--steps", "1", "--dry-run", "-o", "out/adapted"],
            "info": ["info", "--json"],
        }

    def digests(self) -> dict[str, str]:
        """What every input of the valid lines holds."""
        named = ("a.jpg", "b.jpg", "box.obj", "labels.png", "points.csv", "animals.csv", "squares", "tiny", "run")
        named += ("animals.json", "animals")
        places = [self.root / name for name in named]
        inputs = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs}


def prepare(root: Path) -> Place:
    """Write the inputs: images, labels, points, a dataset, a tiny model, a report, and damaged files."""
    from hostile.mutations import HTML, LFS
    from PIL import Image
    from training_data import tiny_vit, write_spair

    for seed, name in enumerate(("a.jpg", "b.jpg")):
        noise = bytes(Random(seed).randrange(256) for _ in range(8 * 6 * 3))
        Image.frombytes("RGB", (8, 6), noise).resize((120, 90), Image.Resampling.BICUBIC).save(root / name)
    labels = Image.new("L", (120, 90), 0)
    labels.paste(1, (20, 20, 80, 70))
    labels.save(root / "labels.png")
    (root / "points.csv").write_text("x,y,name\n30,40,nose\n")
    (root / "animals.csv").write_text("image,x,y,name\na.jpg,30,40,nose\na.jpg,70,60,tail\n")
    corners = [f"v {x} {y} {z}" for x in (0, 1) for y in (0, 1) for z in (0, 2)]
    squares = ["1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4"]
    (root / "box.obj").write_text("\n".join([*corners, *(f"f {square}" for square in squares)]) + "\n")
    (root / "cut.jpg").write_bytes((root / "a.jpg").read_bytes()[:400])
    (root / "page.jpg").write_bytes(HTML)
    (root / "pointer.safetensors").write_bytes(LFS)
    (root / "empty.json").write_bytes(b"")
    (root / "folder.jpg").mkdir()
    write_spair(root / "squares", train=2, val=2)
    write_labels(root)
    (root / "run").mkdir()
    (root / "run" / "report.json").write_text('{"benchmark": "keypoints", "label": "m", "data": "d", "values": {}}')
    return Place(root, tiny_vit(root / "tiny"))


def write_labels(root: Path) -> None:
    """Twenty small images with an animal of three keypoints on each, as COCO."""
    import torch
    from PIL import Image

    from geco.propagation import VISIBLE, Animal, LabelledImage, LabelSet, write_annotations
    from geco.types import Skeleton

    (root / "animals").mkdir()
    images = []
    for number in range(20):
        path = root / "animals" / f"{number}.png"
        Image.new("RGB", (40, 30), (number, 9 * number, 90)).save(path)
        xy = torch.tensor([[5.0, 5.0], [30.0, 6.0], [20.0, 25.0]])
        images.append(LabelledImage(path, (Animal(xy, torch.full((3,), VISIBLE)),), size=(30, 40)))
    skeleton = Skeleton(("left", "right", "tail"), (1, 0, 2), (1, 0, 2))
    write_annotations(LabelSet(skeleton, images), root / "animals.json")


def hostile(place: Place, *, per_option: int, seed: int = 0) -> Iterator[list[str]]:
    """Lines with one thing wrong: an option with a value from `TEXTS`, a word dropped, doubled or replaced."""
    random = Random(seed)
    for name, line in place.lines().items():
        words = len(name.split())
        for option in options_of(name):
            for value in random.sample(TEXTS, per_option):
                yield [*line, option, value]
        for number in range(words, len(line)):
            instead = [random.choice(TEXTS)] if number % 2 else []  # every other word is replaced, the rest dropped
            yield [*line[:number], *instead, *line[number + 1 :]]
        yield [*line, random.choice(TEXTS)]


def options_of(name: str) -> list[str]:
    """The options of a command that take a value."""
    from geco.cli import build

    command = typer.main.get_command(build())
    for word in name.split():
        command = command.commands[word]
    return [
        parameter.opts[0]
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.is_flag and parameter.opts[0].startswith("-")
    ]


def fault(code: int, out: str, err: str) -> str:
    """What is wrong with how a line ended; empty if nothing is."""
    errors = [line for line in err.splitlines() if line.startswith(("error:", "Error"))]
    if "Traceback" in err or "Traceback" in out:
        return "a traceback"
    if any("unexpected" in line and "bug of geco" in line for line in errors):
        return "an error that is not ours"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    said = '"faults"' in out or '"found": false' in out  # of `data check`, of `pose`
    if code and not errors and "damaged" not in out + err and not said:
        return "no line that says what is wrong"
    if len(errors) > 1 or any(len(line) > LONGEST + len("error: ") for line in errors):
        return "an error of several lines, or too long"
    if not code and any(word in out for word in ("NaN", "Infinity")):
        return "a result that is not a number"
    return ""


# --- as real processes ------------------------------------------------------------------------------------------------


def main(count: int = 72) -> int:
    """Run a sample of the lines as processes; the number of failures."""
    with tempfile.TemporaryDirectory() as folder:
        place = prepare(Path(folder).resolve())
        lines = [*place.lines().values(), *Random(1).sample(list(hostile(place, per_option=2)), count)]
        before, failures = place.digests(), 0
        for number, line in enumerate(lines, 1):
            started = time.perf_counter()
            command = [sys.executable, "-m", "geco", *line]
            environment = {**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
            try:
                done = subprocess.run(
                    command,
                    cwd=place.root,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                )
                wrong = fault(done.returncode, done.stdout, done.stderr)
            except subprocess.TimeoutExpired:
                wrong = "a hang"
            wrong = wrong or ("a changed input" if place.digests() != before else "")
            failures += bool(wrong)
            seconds = time.perf_counter() - started
            print(f"{number:3d} {seconds:5.1f} s {wrong or 'ok':12s} geco {' '.join(line)[:120]!r}", flush=True)
    print(f"{len(lines) - failures} passed, {failures} failed")
    return failures


if __name__ == "__main__":
    sys.exit(bool(main()))
