"""What the options of `geco train` say: the configuration of each run, and its datasets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geco.errors import InputError
from geco.training.settings import TrainConfig

if TYPE_CHECKING:
    from geco.training import Source


def configured(
    preset: str,
    options: Mapping[str, Any],
    *,
    distill: str | None = None,
    model: str | None = None,
    size: int | None = None,
    settings: Sequence[str] = (),
) -> TrainConfig:
    """The preset with what the options (None: not given) and `--set key=value` change."""
    from geco import training
    from geco.system import codec

    config = training.preset(preset)
    config = config if distill is None else training.distilling(config, distill)
    config = config if model is None else training.starting_from(config, model)
    config = config if size is None else config.at_size(size)
    changes = [(key, str(value)) for key, value in options.items() if value is not None]
    for setting in settings:
        key, sign, text = setting.partition("=")
        if not sign:
            raise InputError(f"--set takes key=value, like loss.reduction=conditional, got {setting!r}")
        changes.append((key, text))
    return codec.changed_together(config, changes)


def runs_of(config: TrainConfig, ablation: str | None) -> dict[str, TrainConfig]:
    """The configuration of every run by its name, which is empty if there is only the one."""
    from geco import training

    if ablation is None:
        return {"": config}
    return {name: training.ablation(name, config) for name in ablation.split(",")}


def sources_named(texts: Sequence[str], loader: Sequence[str], masks: Sequence[str]) -> "list[Source]":
    """What `--data` names, with what `--loader` and `--masks` say about it."""
    return training_sources(texts, (), loader, masks)[0]


def training_sources(
    trained: Sequence[str], validated: Sequence[str], loader: Sequence[str], masks: Sequence[str]
) -> "tuple[list[Source], list[Source]]":
    """What `--data` and `--valid` name, with what `--loader` and `--masks` say about them."""
    from geco.training import Source

    roots = _roots(trained, option="--data")
    only_validated = _roots(validated, option="--valid")
    if both := sorted(roots.keys() & only_validated.keys()):
        raise InputError(f"--valid names {both[0]}, which --data names too; its split val is validated on anyway")
    options = _loader_options(loader, [*roots, *only_validated])
    folders = _mask_folders(masks, list(roots))
    sources, others = (
        [Source(name, root, tuple(options.get(name, ())), folders.get(name)) for name, root in some.items()]
        for some in (roots, only_validated)
    )
    return sources, others


def _roots(texts: Sequence[str], *, option: str) -> dict[str, Path]:
    from geco import data

    roots: dict[str, Path] = {}
    for text in texts:
        name, sign, root = text.partition("=")
        if not sign:
            raise InputError(f"{option} takes name=ROOT, like spair=data/SPair-71k, got {text!r}")
        name = data.find(name).name
        if name in roots:
            raise InputError(f"{option} names {name} twice: {roots[name]} and {root}")
        roots[name] = Path(root)
    return roots


def _loader_options(texts: Sequence[str], datasets: Sequence[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for text in texts:
        name, dot, option = text.partition(".")
        if not dot or "=" not in option:
            raise InputError(f"--loader takes dataset.key=value, like animalpose.crop=square, got {text!r}")
        options.setdefault(_among(datasets, name, option="--loader"), []).append(option)
    return options


def _mask_folders(texts: Sequence[str], datasets: Sequence[str]) -> dict[str, str]:
    folders: dict[str, str] = {}
    for text in texts:
        name, sign, folder = text.partition("=")
        if not sign and len(datasets) > 1:
            raise InputError(
                f"--masks takes name=FOLDER or name=box where there are several datasets, "
                f"like {datasets[0]}={text}, got {text!r}"
            )
        if not sign:
            name, folder = datasets[0], text
        folders[_among(datasets, name, option="--masks")] = folder
    return folders


def _among(datasets: Sequence[str], name: str, *, option: str) -> str:
    from geco import data

    name = name if name in datasets else data.find(name).name
    if name not in datasets:
        raise InputError(f"{option} names {name}, but --data only {', '.join(datasets)}")
    return name
