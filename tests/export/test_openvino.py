"""Foreign and damaged OpenVINO files: one line each."""

import re
import shutil

import pytest
from hostile.verdicts import refused

import geco


@pytest.fixture
def copied(quantised, tmp_path):
    """A copy of the exported files to spoil: the graph and its weights."""
    _, outcome = quantised
    for ending in (".xml", ".bin"):
        shutil.copy(outcome.path.with_suffix(ending), tmp_path / f"copy{ending}")
    return tmp_path / "copy.xml"


def test_its_metadata_can_be_read_without_geco(quantised):
    import openvino

    network, outcome = quantised
    model = openvino.Core().read_model(str(outcome.path))
    facts = {key: str(model.get_rt_info(["geco", key]).value) for key in ("mean", "size", "model", "fingerprint")}
    assert facts["mean"] == "[0.485, 0.456, 0.406]"
    assert (facts["size"], facts["model"], facts["fingerprint"]) == ("56", network.name, network.fingerprint())
    assert [sorted(entry.get_names()) for entry in (*model.inputs, *model.outputs)] == [["pixels"], ["features"]]


def test_weights_that_are_missing_or_cut_are_noticed(copied):
    weights = copied.with_suffix(".bin")
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    refused(lambda: geco.load(copied), "copy.xml")
    weights.unlink()
    assert "missing beside it" in refused(lambda: geco.load(copied), "copy.xml", "copy.bin")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95])
def test_a_graph_that_was_cut_is_refused(copied, share):
    content = copied.read_bytes()
    copied.write_bytes(content[: int(len(content) * share)])
    refused(lambda: geco.load(copied), "copy.xml")


def test_a_graph_of_somebody_else_says_what_to_give(copied):
    text = copied.read_text()
    start, end = text.index("<geco>"), text.index("</geco>") + len("</geco>")
    copied.write_text(text[:start] + text[end:])
    assert "holds no metadata of geco" in refused(lambda: geco.load(copied), "copy.xml", "geco export")
    copied.write_text("<?xml version='1.0'?>\n<annotation><size/></annotation>")
    assert "XML" in refused(lambda: geco.load(copied), "copy.xml", "geco export")


def test_operators_of_other_libraries_are_refused(copied):
    text = copied.read_text()
    copied.write_text(re.sub(r'type="Convolution" version="opset1"', 'type="Magic" version="evil"', text, count=1))
    refused(lambda: geco.load(copied), "copy.xml")
