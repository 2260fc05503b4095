"""What a start costs, by what is imported and not by time."""

import json
import subprocess
import sys

HEAVY = (
    *("transformers", "peft", "accelerate", "huggingface_hub", "matplotlib", "pandas", "scipy", "sklearn", "cv2"),
    *("kornia", "trimesh", "gradio", "torchvision", "onnxruntime", "diffusers", "h5py", "sleap_io"),
    *("geco.viz", "geco.training", "geco.evaluation", "geco.pose.estimation", "geco.propagation.keypoints"),
    *("geco.cli.train", "geco.cli.evaluate", "PIL.EpsImagePlugin", "PIL.PdfImagePlugin"),
)


def test_a_transfer_for_a_script_imports_nothing_that_it_does_not_use(image_file, tiny_folder, tmp_path):
    source, target = image_file("a.jpg"), image_file("b.jpg")
    line = ["transfer", source, target, "-p", "10,20", "-m", tiny_folder, "--size", "56", "--json"]
    code = (
        "import sys, json\nfrom geco.cli import run\n"
        "code = run(json.loads(sys.argv[1]))\n"
        f"print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))"
    )
    arguments = [sys.executable, "-c", code, json.dumps([str(word) for word in line])]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []]
    assert json.loads("\n".join(done.stdout.splitlines()[:-1]))[0]["image"].endswith("b.jpg")
    assert not list(tmp_path.glob("*.png"))
