"""Draws PCK against frames per second end to end, as in the paper's teaser, from finished evaluations:

    python docs/figures/front.py docs/figures/front.png \
        --row "focus-small, torch" focus-small:224 runs/val/focus-small \
        --row "geco-s, torch" geco-s runs/val/geco-s \
        --row "geco-xs, torch" geco-xs runs/val/geco-xs \
        --row "geco-xs, OpenVINO" geco-xs.xml runs/val/geco-xs \
        --row "geco-xs, OpenVINO int8" geco-xs-int8.xml runs/val/geco-xs-int8

A row is a label (model, comma, engine), a model that `geco.load` takes (with `:side` if not its own), and the folder of
`geco evaluate keypoints`.
An export in float32 has the features of its model, so they share an evaluation; one in eight bits needs its own. Models
are timed here, side by side, as `geco bench --end-to-end` does: run it on a quiet machine.
"""

import argparse
from pathlib import Path

import geco
from geco import evaluation, viz
from geco.errors import GecoError
from geco.evaluation.settings import FrameProtocol
from geco.types import Encoder
from geco.viz import SpeedPoint

RADIUS = 0.1
Row = tuple[str, Encoder, evaluation.Report]


def read(given: list[list[str]]) -> list[Row]:
    """Label, model and evaluation of each row."""
    rows = []
    for label, model, folder in given:
        report = evaluation.load_report(folder)
        name, _, side = model.partition(":")
        rows.append((label, geco.load(name, device="cpu", **({"size": int(side)} if side else {})), report))
    return rows


def points(rows: list[Row], protocol: FrameProtocol) -> dict[str, list[SpeedPoint]]:
    """A panel for each dataset that rows were evaluated on."""
    timed = evaluation.frames.run({label: encoder for label, encoder, _ in rows}, protocol)
    fps = {measure.case: measure.value for measure in timed.measures if measure.metric == "fps"}
    panels: dict[str, list[SpeedPoint]] = {}
    for label, _, report in rows:
        quality = 100 * report.measure("PCK", "geco", RADIUS).value
        panels.setdefault(report.data, []).append(SpeedPoint(label, fps[label], quality))
    return panels


def main(out: Path, given: list[list[str]], *, repeats: int = 20) -> None:
    """Draw the figure and print its numbers as a table."""
    panels = points(read(given), FrameProtocol(repeats=repeats))
    viz.save(viz.speed_panels(panels), out)
    for data, row in panels.items():
        print(f"| {data} | fps | PCK@{RADIUS:g} |\n|---|---|---|")
        for point in row:
            print(f"| {point.name} | {point.frames:.1f} | {point.quality:.1f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--row", nargs=3, action="append", required=True, metavar=("LABEL", "MODEL", "REPORT"))
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    try:
        main(options.out, options.row, repeats=options.repeats)
    except GecoError as error:
        raise SystemExit(str(error)) from None
