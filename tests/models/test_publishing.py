"""Models are published with their own files and a licence; against a hub that answers on this machine."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tiny_model import fresh

from geco import models
from geco.errors import InputError, MissingFileError
from geco.models import cards

TOKEN = "hf_test"


class FakeHub(BaseHTTPRequestHandler):
    """Answers what the hub's client asks when a repository is made and a commit is uploaded."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hub = self.server
        hub.tokens.add(self.headers.get("Authorization"))
        if hub.status != 200:
            self.answer({"error": "refused"}, hub.status)
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            hub.made.append(asked)
            self.answer({"url": f"{hub.address}/{asked.get('organization') or 'me'}/{asked['name']}"})
        elif self.path == "/api/validate-yaml":  # of a card's metadata
            hub.cards.append(json.loads(body)["content"])
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            self.answer({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer({"commitUrl": f"{hub.address}/me/foxes/commit/{'0' * 40}", "commitOid": "0" * 40})
        else:
            self.answer({"error": f"not expected: {self.path}"}, 500)

    def do_GET(self):
        self.answer({"id": "me/foxes", "sha": "0" * 40, "siblings": []}, self.server.status)

    def answer(self, content, status=200):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.address = f"http://127.0.0.1:{server.server_port}"
    server.files, server.made, server.cards, server.tokens, server.status = {}, [], [], set(), 200
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def whole(tiny_folder):
    """A model without an adapter, which is saved with all its weights."""
    return fresh(tiny_folder).merge()


def test_its_own_files_arrive_and_nothing_else(hub, whole, tmp_path):
    saved = whole.save_pretrained(tmp_path / "model")
    (saved / "checkpoint.pt").write_bytes(b"secret")
    address = models.push_to_hub(saved, "me/foxes", license="cc-by-4.0", private=True, token=TOKEN)
    assert address == f"{hub.address}/me/foxes"
    assert set(hub.files) == {"README.md", "geco.json", "config.json", "model.safetensors"}
    for name in ("geco.json", "model.safetensors"):
        assert hub.files[name] == (saved / name).read_bytes()
    assert hub.made[0]["name"] == "foxes"
    assert hub.made[0].get("private") or hub.made[0].get("visibility") == "private"
    assert hub.tokens == {f"Bearer {TOKEN}"}
    card = hub.files["README.md"].decode()
    assert "license: cc-by-4.0\n" in card
    assert 'geco.load("me/foxes")' in card
    assert "license: unknown" in (saved / "README.md").read_text(), "the folder stays as it was"


def test_a_loaded_model_is_published_by_its_method(hub, whole):
    assert whole.push_to_hub("me/foxes", license="mit", token=TOKEN).endswith("me/foxes")
    assert "geco.json" in hub.files


def test_without_a_licence_nothing_is_published(hub, whole, tmp_path):
    with pytest.raises(InputError, match="the model has no licence yet; give license="):
        whole.push_to_hub("me/foxes")
    with pytest.raises(InputError, match=r"license must be an identifier such as cc-by-4\.0, got 'My own!'"):
        whole.push_to_hub("me/foxes", license="My own!")
    with pytest.raises(MissingFileError, match="holds no saved model"):
        models.push_to_hub(tmp_path, "me/foxes", license="mit")
    assert not hub.made
    assert not hub.files


def test_an_adapter_on_a_local_backbone_is_refused(hub, tiny_folder):
    with pytest.raises(InputError, match=r"which me/foxes would not have; publish model\.merge\(\) instead"):
        fresh(tiny_folder).push_to_hub("me/foxes", license="mit")
    assert not hub.made


def test_what_the_hub_refuses_is_one_line(hub, whole):
    hub.status = 401
    with pytest.raises(models.HubError, match="me/foxes could not be published: the hub answered 401"):
        whole.push_to_hub("me/foxes", license="mit", token=TOKEN)
    with pytest.raises(InputError, match="is no name of a repository"):
        whole.push_to_hub("me//foxes", license="mit")


def test_a_card_has_the_hub_s_metadata_and_asks_for_a_licence(tiny_folder):
    yaml = pytest.importorskip("yaml")
    model = fresh(tiny_folder)
    card = cards.model_card("foxes", model.config, note="", parameters=7)
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert set(metadata) >= {"license", "library_name", "tags", "base_model", "pipeline_tag", "datasets", "metrics"}
    assert metadata["license"] == "unknown"
    assert metadata["base_model"] == tiny_folder.name, "no path of this machine"
    assert "Choose one" in card
    assert cards.licence_of(card) is None
    stated = cards.with_licence(card, "cc-by-4.0")
    assert cards.licence_of(stated) == "cc-by-4.0"
    assert "Choose one" not in stated


def test_the_packaged_card_has_the_same_metadata():
    yaml = pytest.importorskip("yaml")
    metadata = yaml.safe_load((models.folder_named("geco-s") / "README.md").read_text().split("---\n")[1])
    assert set(metadata) >= {"license", "library_name", "tags", "base_model", "pipeline_tag", "datasets", "metrics"}
    assert metadata["license"] == "apache-2.0"
