"""Publishing: a saved model's own files, to a repository of the model hub."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from geco.errors import InputError, MissingFileError
from geco.models import cache, cards, hub, saving, weights
from geco.system import files

if TYPE_CHECKING:
    from geco.models.geco import Geco

CARD = saving.CARD
# What `save_pretrained` writes; nothing else in a folder (checkpoints, logs, pictures) is uploaded.
PUBLISHED = (CARD, saving.NOTICE, *weights.ADAPTER_FILES, cache.CONFIG, cache.WEIGHTS, cache.CHECKSUMS)


def push_to_hub(
    model: "Geco | str | Path",
    repository: str,
    *,
    license: str | None = None,
    private: bool = False,
    token: str | None = None,
) -> str:
    """Publish a model, or the folder of a saved one, as `repository` ("name/model"); returns its address.

    Adapter or weights, configuration and card are uploaded, nothing else. The card must state a licence, or `license`
    does ("cc-by-4.0"). The repository is made if it does not exist; log in with `hf auth login` or give a `token`.
    """
    with tempfile.TemporaryDirectory() as draft:
        folder = Path(draft)
        if isinstance(model, str | Path):
            _copy(Path(model), folder)
        else:
            model.save_pretrained(folder)
        _check(folder, repository)
        card = (folder / CARD).read_text(encoding="utf-8")
        if license is not None:
            card = cards.with_licence(card, license)
        if cards.licence_of(card) is None:
            raise InputError(f"the model has no licence yet; give license=…, one of {cards.CHOICES}")
        files.replace_text(folder / CARD, card.replace("path/to/this/folder", repository))
        return _upload(folder, repository, private=private, token=token)


def _copy(source: Path, folder: Path) -> None:
    """Copies of the files that are published; of a run, those of its best model."""
    places = (source, *(source / name for name in weights.RUN_MODELS))
    best = next((place for place in places if (place / weights.CONFIG_FILE).is_file()), None)
    if best is None:
        raise MissingFileError(f"{source} holds no saved model ({weights.CONFIG_FILE}); save one with save_pretrained")
    for name in PUBLISHED:
        if (best / name).is_file():
            (folder / name).write_bytes((best / name).read_bytes())
    if not (folder / CARD).is_file():
        raise MissingFileError(f"{best / CARD} is missing; a model is published with its card")


def _check(folder: Path, repository: str) -> None:
    """Refuse what others could not load: an adapter whose backbone lies on this machine alone."""
    backbone = weights.adapter_config(folder).backbone
    if backbone != "." and (os.sep in backbone and Path(backbone).is_dir()):
        raise InputError(
            f"the backbone of this adapter is the folder {backbone}, which {repository} would not have; "
            "publish model.merge() instead"
        )


def _upload(folder: Path, repository: str, *, private: bool, token: str | None) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    api = HfApi(token=token)
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=list(PUBLISHED), commit_message="Publish with geco"
        )
    except HFValidationError as error:
        raise InputError(f"{repository!r} is no name of a repository: {' '.join(str(error).split())[:120]}") from None
    except OSError as error:
        raise hub.HubError(f"{repository} could not be published: {hub.reason(error)}") from None
    return str(address)
