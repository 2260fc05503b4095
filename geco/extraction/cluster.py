"""Extracting a collection with Ray Data: processes that hold the model, on this machine or on a cluster.

A row of the dataset is a shard to be encoded; the process that encodes it also writes it, and only a line about it
comes back. So nothing large lives in Ray's object store, and every node must see the images and the folder under the
same paths. A process or node that dies costs the shard it was at, which Ray gives to another one.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from geco.errors import FileError, GecoError, InputError, MissingPackageError
from geco.extraction import bulk, index
from geco.extraction.bulk import Summary
from geco.extraction.jobs import Job, Task, Work
from geco.system import Progress, silent
from geco.types import Encoder

OBJECT_STORE = 128 * 2**20  # bytes: rows are a few hundred bytes, but Ray needs some room
AUTOMATIC = "auto"  # the cluster that this machine is a node of
ADDRESS = re.compile(r"(?:ray://)?(?P<host>[\w.-]+):(?P<port>[0-9]{1,5})", re.ASCII)
PATIENCE = 5.0  # seconds
IN_FLIGHT = 2  # shards that are handed to a process beyond which the others wait


def check_address(address: str) -> None:
    """Refuse what is not the address of a cluster that answers: Ray itself would try for minutes."""
    if address == AUTOMATIC:
        return
    parts = ADDRESS.fullmatch(address)
    if parts is None or not 0 < int(parts["port"]) < 2**16:
        raise InputError(f"the address of a Ray cluster is auto, HOST:PORT or ray://HOST:PORT, got {address[:60]!r}")
    try:
        socket.create_connection((parts["host"], int(parts["port"])), timeout=PATIENCE).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"no Ray cluster answers at {address[:60]}: {reason}; check --ray-address") from None


class ShardEncoder:
    """A process that has loaded the model and encodes the shards that it is given."""

    def __init__(self, work: Work, load: Callable[[], Encoder], cpus: int) -> None:
        import torch

        torch.set_num_threads(cpus)
        self.work, self.encoder = work, load()
        if self.encoder.fingerprint() != work.about.fingerprint:
            raise InputError(f"a worker has another model than {work.about.model}: are all nodes' files the same?")

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The shard encoded and written; what the index is to say of it."""
        task = Task(**{name: int(value) for name, value in row.items()})
        try:
            line = bulk.encode_shard(self.work, task, self.encoder)
        except GecoError as error:  # retrying would not help
            return {"shard": task.shard, "images": task.images, "line": "", "error": str(error)}
        return {"shard": task.shard, "images": task.images, "line": line.text(), "error": ""}


def run(
    job: Job,
    load: Callable[[], Encoder],
    *,
    address: str | None = None,
    workers: int | None = None,
    cpus: int = 1,
    gpus: float = 0,
    progress: Progress = silent,
) -> Summary:
    """Encode what is missing, in processes of Ray that each `load` the model; `address` is that of a cluster."""
    bulk.prepare(job.work, load, progress=progress)
    done, total = job.resumed, job.work.about.images
    progress("extract", done, total)
    if job.tasks:
        with _connected(address, cpus=cpus * workers if workers else None) as ray:
            count = workers or _room(ray, cpus, gpus)
            for row in _encoded(ray, job, load, count, cpus, gpus):
                if row["error"]:
                    raise FileError(f"a worker stopped: {row['error']}")
                index.append(job.work.folder, [index.parse(row["line"].encode(), "a worker's answer")])
                done += row["images"]
                progress("extract", done, total)
    return bulk.finish(job)


def _encoded(
    ray: Any, job: Job, load: Callable[[], Encoder], workers: int, cpus: int, gpus: float
) -> Iterator[dict[str, Any]]:
    """What the processes say of each shard, as soon as it is written."""
    from ray.data import ActorPoolStrategy

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.enable_rich_progress_bars = False
    context.actor_task_retry_on_errors = False
    context.execution_options.resource_limits = ray.data.ExecutionResources(object_store_memory=OBJECT_STORE)
    rows = ray.data.from_items([asdict(task) for task in job.tasks], override_num_blocks=len(job.tasks))
    encoded = rows.map(
        ShardEncoder,
        fn_constructor_args=(job.work, load, cpus),
        compute=ActorPoolStrategy(size=min(workers, len(job.tasks)), max_tasks_in_flight_per_actor=IN_FLIGHT),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )
    try:
        yield from encoded.iter_rows()
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, GecoError):
            raise cause from None
        reason = " ".join(str(error).split())[-160:]
        raise FileError(f"Ray gave up: {reason}; what was finished is kept, run the same command again") from None


@contextmanager
def _connected(address: str | None, *, cpus: int | None) -> Iterator[Any]:
    """Ray, started on this machine or connected to, and left alone afterwards."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage is reported
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingPackageError.of_extra("ray", "Ray", what="--ray") from None
    own = not ray.is_initialized()
    options: dict[str, Any] = {"address": address}
    if not address:  # "local": else Ray connects to whatever cluster was last started on this machine
        options = {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
        }
    if own:
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())[:100]
            raise FileError(
                f"Ray at {address or 'this machine'} cannot be used: {reason}; check --ray-address, and that Ray has "
                "the cluster's token if it asks for one"
            ) from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield ray
    finally:
        if own:
            ray.shutdown()


def _room(ray: Any, cpus: int, gpus: float) -> int:
    """Processes that the cluster has room for."""
    resources = ray.cluster_resources()
    by_cpu = int(resources.get("CPU", 1) // cpus)
    by_gpu = int(resources.get("GPU", 0) // gpus) if gpus else by_cpu
    if not min(by_cpu, by_gpu):
        raise InputError(f"each worker needs {cpus} processors and {gpus:g} GPUs, and no node has them; give fewer")
    return min(by_cpu, by_gpu)
