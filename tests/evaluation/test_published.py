"""The paper's numbers: consistent with each other and with what its text says."""

import pytest

from geco.data import names
from geco.evaluation import published
from geco.evaluation.settings import PROTOCOLS


def test_every_dataset_and_protocol_exists():
    assert {*published.KEYPOINTS, *published.PARTS} <= set(names())
    assert {protocol for _, protocol in published.KEYPOINTS.values()} <= set(PROTOCOLS)


def test_the_rows_agree_with_the_differences_that_the_abstract_states():
    """It improves PCK by 6.0 % on PF-PASCAL and 6.2 % on APK over Geo, and by 4.1 % on CUB."""
    geco, geo = published.ROWS["geco"].pck, published.ROWS["geo"].pck
    for dataset, difference in (("pfpascal", 6.0), ("ap10k", 6.2), ("cub", 4.1)):
        assert geco[dataset] - geo[dataset] == pytest.approx(difference)
    clear = {name: published.ROWS[name].pgck["ap10k"][0] for name in ("geco", "geo")}
    assert clear["geco"] - clear["geo"] == pytest.approx(3.8), "the caption of the table of geometric ambiguity"
    slow, fast = (published.ROWS[name].milliseconds["ap10k"] for name in ("geo", "geco"))
    assert (slow, fast) == (2127, 40), "the introduction"


def test_every_number_is_a_percentage_or_a_time_and_every_row_can_be_had():
    for row in published.ROWS.values():
        shares = [*row.pck.values(), *(x for split in (*row.pgck.values(), *row.parts.values()) for x in split)]
        assert all(0 < share < 100 for share in shares)
        assert all(sum(split) < 100 for split in row.pgck.values()), "three kinds of the same points"
        assert set(row.milliseconds) in (set(), set(published.KEYPOINTS))
        assert row.get


def test_the_main_table_has_seven_methods():
    backbones, trained = ["dino-vitb8", "dift-adm", "dinov2-small", "dinov2-base"], ["geo", "sphere", "geco"]
    assert list(published.IN_THE_TABLE) == backbones + trained
