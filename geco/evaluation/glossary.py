"""What the columns and rows of a report mean, in one line each."""

from collections.abc import Iterable

MEANINGS = {
    "pairs": "annotated pairs of images",
    "points": "keypoints that are visible in both images of a pair",
    "PCK": "share of the points that were placed within α of their match",
    "11 correct": "twin visible too: placed near the match",
    "11 clear": "twin visible too: placed near the match and not near the twin",
    "11 both": "twin visible too: placed near both, which lie close together",
    "11 to twin": "twin visible too: missed, and placed near the twin",
    "11 confused": "to twin / (correct + to twin): of those that found one of the two, how many found the wrong one",
    "10 correct": "twin hidden: placed near the match",
    "1x correct": "a point without a twin: placed near the match",
    "01 to twin": "match hidden, twin visible: placed near the twin",
    "11/n": "share of the points whose twin is visible too",
    "10/n": "share of the points whose twin is hidden",
    "1x/n": "share of the points that have no twin",
    "n 01": "points whose match is hidden and whose twin is visible",
    "n 00": "points whose match is hidden and whose twin is hidden or does not exist",
    "AUC": "area under the ROC curve of a low best similarity as a sign of a hidden point",
    "AP": "average precision of the same",
    "hidden auc": "area under the ROC curve of a low best similarity as a sign of a hidden point",
    "hidden ap": "average precision of the same",
    "hidden below bin": "hidden points whose best similarity is below the threshold, as it should be",
    "visible below bin": "visible points whose best similarity is below the threshold: false alarms",
    "ms": "milliseconds per image, one at a time",
    "clear": "placed near the match and not near the twin",
    "both": "placed near match and twin, which lie close together",
    "to twin": "missed, and placed near the twin",
    "mIoU": "intersection over union, mean over parts",
    "accuracy": "share of the patches with the right part",
}


def explained(names: Iterable[str]) -> list[tuple[str, str]]:
    """(name, meaning) of those that are known, in their order; "PCK@0.1" and "@0.1" are PCK."""
    found = {}
    for name in names:
        key = "PCK" if name.startswith(("@", "PCK@")) else name
        if key in MEANINGS:
            found[key] = MEANINGS[key]
    return list(found.items())
