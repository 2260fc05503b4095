"""Places: where a backbone can be loaded from right now; and where the parts are of one that is put together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from geco.backbones import MANIFEST, Manifest, Part, Source, read_manifest
from geco.errors import FileError, GecoError, InputError, MissingFileError
from geco.models import hub
from geco.models.names import as_path, looks_like_hub_id
from geco.system import documents, plugins

PAGE = "docs/baselines.md"


@dataclass(frozen=True)
class Place:
    """Where a backbone can be loaded from right now, and how it is read unless told otherwise."""

    family: str  # its plug-in
    location: str  # folder in Hugging Face format; empty if the plug-in needs no files, or takes parts
    source: Source
    note: str
    parts: Mapping[str, str] = field(default_factory=dict)  # of one that is put together: part → folder or file
    given: Mapping[str, str] = field(default_factory=dict)  # … and as what each was given: name, hub id or path

    @property
    def about(self) -> str:
        """The note with the licence, for people: what is printed when it is loaded, and stands in cards."""
        licence = f"licence: {self.source.licence}" if self.source.licence else ""
        return "; ".join(text for text in (self.note, licence) if text)


Locate = Callable[[str], Place]


def parts_of(family: str) -> Mapping[str, Part]:
    """What backbones of a family are put together from; nothing, of most families."""
    parts: Mapping[str, Part] = getattr(plugins.find("backbones", family), "PARTS", {})
    return parts


def composed(
    name: str, family: str, source: Source, *, given: Mapping[str, str], manifest: Path | None, locate: Locate
) -> Place:
    """The place of the model `name`, with its parts as they are given, or else the default ones.

    Paths are relative to the manifest, if they come from one.
    """
    parts = parts_of(family)
    unknown = sorted(set(given) - set(parts))
    if unknown:
        raise InputError(f"{manifest}: {name} has no part {unknown[0]!r}; expected {documents.listed(parts)}")
    missing = [part for part in parts if part not in given and not (parts[part].default or parts[part].optional)]
    if missing:
        part = parts[missing[0]]
        home = f" ({part.home})" if part.home else ""
        raise MissingFileError(
            f"{name} needs {part.what}{home}, which geco does not fetch: give the file itself as the model, or a "
            f"folder whose {MANIFEST} names it as {missing[0]!r} ({PAGE})"
        )
    defaults = {part: entry.default for part, entry in parts.items() if entry.default is not None}
    named = {**defaults, **{part: _as_named(value, manifest) for part, value in given.items()}}
    found = {part: _found(name, part, parts[part], value, locate) for part, value in named.items()}
    return Place(family, "", source, source.note, parts=found, given=named)


def from_manifest(manifest: Manifest, sources: Mapping[str, tuple[str, Source]], *, locate: Locate) -> Place:
    """The place of the model that a manifest puts together."""
    made = [name for name, (family, _) in sources.items() if parts_of(family)]
    if manifest.model not in made:
        raise InputError(f"{manifest.path}: model: expected {' or '.join(made)}, got {documents.shown(manifest.model)}")
    family, source = sources[manifest.model]
    return composed(manifest.model, family, source, given=manifest.parts, manifest=manifest.path, locate=locate)


def fetched(repository: str) -> Manifest:
    """The manifest of a hub repository, with the files beside it that it names."""
    manifest = read_manifest(hub.fetch(repository, [MANIFEST]))
    for part, value in manifest.parts.items():
        if Path(value).expanduser().is_absolute() or ".." in Path(value).parts:
            raise InputError(f"{repository} on the hub: parts.{part} is {documents.shown(value)}, outside of it")
    beside = [value for value in manifest.parts.values() if Path(value).suffix]
    return read_manifest(hub.fetch(repository, [MANIFEST, *beside]))


def _as_named(value: str, manifest: Path | None) -> str:
    """What is given for a part: the path of a file or folder, beside the manifest or elsewhere, or else the name."""
    path = Path(value).expanduser()
    path = path if manifest is None else manifest.parent / path
    return str(path) if as_path(str(path)).exists() else value


def _found(name: str, label: str, part: Part, value: str, locate: Locate) -> str:
    """The folder or file of a part."""
    try:
        if part.backbone:
            return locate(value).location
        if as_path(value).exists():
            return value
        if part.files and looks_like_hub_id(value):
            return str(hub.fetch(value, list(part.files)))
    except hub.HubError as error:
        raise FileError(
            f"{name} needs {part.what}: {error}; connect once, or name a local copy as {label!r} in a {MANIFEST} "
            f"({PAGE})"
        ) from None
    except GecoError as error:
        raise type(error)(f"{name}, part {label!r}: {error}") from None
    expected = f"{part.what}, a file{', folder or hub id' if part.files else ''}"
    raise MissingFileError(
        f"{name}, part {label!r}: no such file or folder {documents.shown(value)}; expected {expected}"
    )
