"""Quantisation: what depends on an image's size alone stays in floating point."""

from geco.export.quantisation import independent


def test_products_of_sizes_are_told_from_products_of_pixels():
    operations = [
        ("size", "Shape", ["pixels"], ["sides"]),
        ("weights", "MatMul", ["sides", "table"], ["positions"]),
        ("patches", "Conv", ["pixels", "kernel"], ["tokens"]),
        ("added", "Add", ["tokens", "positions"], ["placed"]),
        ("query", "MatMul", ["placed", "matrix"], ["queries"]),
    ]
    assert independent(operations, "pixels") == ["weights"]


def test_the_exported_graph_has_such_products_for_both_sides(onnx_file):
    import onnx

    nodes = onnx.load(str(onnx_file)).graph.node
    spared = independent([(node.name, node.op_type, node.input, node.output) for node in nodes], "pixels")
    products = [node.name for node in nodes if node.op_type == "MatMul"]
    assert len(spared) == 2  # rows and columns of the table; antialiased ones need no border
    assert len(products) > len(spared) + 5
