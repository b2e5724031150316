"""Work on a Ray cluster: an executor whose workers are Ray actors, and folders and values that are sent to them.

Every node needs tuplet; stores, graphs and models are fetched by their content. A worker that dies is started again, on
another node if need be, and its work is done again.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from logging import ERROR
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeAlias, TypeVar

from tuplet.errors import BadInput, CorruptStore, TupletError
from tuplet.files import PathLike, locked, make_folder, remove, rename, system_errors

PIECE = 1 << 26  # bytes that travel at a time
CACHE = "TUPLET_CACHE"  # the variable that says where fetched folders are kept
_PATIENCE = 3600.0  # seconds that one worker waits for another that fetches the same folder


@dataclass(frozen=True)
class Shipment:
    """A folder by its content."""

    digest: str
    origin: str  # its path on the machine it comes from
    node: str  # that machine
    files: tuple[tuple[str, tuple[Any, ...]], ...]  # path inside the folder, pieces


@dataclass(frozen=True)
class Shared:
    """A value by its place in the object store of the cluster."""

    reference: Any


Folder: TypeAlias = str | Shipment  # one that is here, or one that may have to be fetched


def content_files(folder: Path) -> list[Path]:
    """The files that are the content of a folder: hidden ones, such as locks, are not."""
    inside = (path for path in folder.rglob("*") if path.is_file())
    return sorted(p for p in inside if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def digest_of(folder: Path) -> str:
    """A hash of all names and bytes in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "a").write_text("1")
    ...     digest_of(Path(name))[:12]
    'c14e2de2b9f5'
    """
    whole = hashlib.sha256()
    for path in content_files(folder):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()


def cache_folder() -> Path:
    """Where fetched folders are kept: $TUPLET_CACHE, else a folder of the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get(CACHE) or home / "tuplet") / "folders"
    try:
        make_folder(folder)
    except OSError:  # a machine without a home that may be written to
        folder = Path(tempfile.gettempdir()) / "tuplet-folders"
        make_folder(folder)
    return folder


P = ParamSpec("P")
T = TypeVar("T")
TRIES = 3  # times that work is begun again after its worker died: what kills every worker ends in an error


class RayWorker:
    """An actor that calls functions; these keep their own state in its process."""

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of the function."""
        return function(*arguments)


class RayExecutor(ThreadPoolExecutor):
    """A pool of actors spread over a cluster; a thread here waits for each of them."""

    def __init__(self, address: str, gpu: bool = False) -> None:
        """Connect to the cluster (`auto`, host:port, ray://…), with a worker for each processor, or for each GPU."""
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise BadInput("--ray needs Ray: pip install 'tuplet[ray]'") from None
        self.ray = ray
        _reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=ERROR, ignore_reinit_error=True)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BadInput(f"there is no Ray cluster at {address!r}: {str(error).splitlines()[0]}") from None
        there = int(ray.cluster_resources().get("GPU" if gpu else "CPU", 0))
        if gpu and not there:
            raise BadInput(f"the Ray cluster at {address!r} has no GPU")
        count = max(1, there)
        needed = {"num_cpus": 1, "num_gpus": 1} if gpu else {"num_cpus": 1}
        again = {"max_restarts": -1, "max_task_retries": TRIES}
        actor = ray.remote(**needed, **again, scheduling_strategy="SPREAD")(RayWorker)
        self.actors = [actor.remote() for _ in range(count)]
        self.idle: SimpleQueue[Any] = SimpleQueue()
        for worker in self.actors:
            self.idle.put(worker)
        self.shipments: dict[Path, Shipment] = {}
        super().__init__(count)

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **_: P.kwargs) -> Future[T]:
        """Hand a call to the next idle actor."""
        return super().submit(self._call, function, arguments)

    def ship(self, folder: PathLike) -> Shipment:
        """A folder that workers find by `fetch_folder`, wherever they are."""
        root = Path(os.path.realpath(folder))
        if root in self.shipments:
            return self.shipments[root]
        if not root.is_dir():
            raise BadInput(f"{folder} is not a folder, so it cannot be sent to other machines")
        files = []
        with system_errors(folder):
            for path in content_files(root):
                with path.open("rb") as stream:
                    pieces = tuple(map(self.ray.put, iter(partial(stream.read, PIECE), b"")))
                files.append((path.relative_to(root).as_posix(), pieces))
            self.shipments[root] = Shipment(digest_of(root), str(root), _node(self.ray), tuple(files))
        return self.shipments[root]

    def share(self, value: object) -> Shared:
        """A value that workers find by `fetch_value`."""
        return Shared(self.ray.put(value))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the actors and leave the cluster."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for worker in self.actors:
            self.ray.kill(worker)
        self.ray.shutdown()

    def _call(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        worker = self.idle.get()
        try:
            result: T = self.ray.get(worker.call.remote(function, arguments))
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TupletError):
                raise error.cause from None
            raise
        except self.ray.exceptions.RayActorError as error:
            raise BrokenExecutor(str(error)) from None
        finally:
            self.idle.put(worker)
        return result


def ship(pool: Executor | None, folder: PathLike) -> Folder:
    """A folder as the workers of a pool are told of it: by its path where they are processes of this machine."""
    return pool.ship(folder) if isinstance(pool, RayExecutor) else str(folder)


def fetch_folder(folder: Folder) -> str:
    """The path of a folder in a worker; it is fetched unless it comes from this machine or was fetched before."""
    if isinstance(folder, str):
        return folder
    ray: Any = import_module("ray")
    if _node(ray) == folder.node:
        return folder.origin
    target = cache_folder() / folder.digest
    if target.is_dir():
        return str(target)
    with locked(target, _PATIENCE), system_errors(target):
        if not target.is_dir():
            fresh = target.with_name(f".{folder.digest}.fetching")
            remove(fresh)
            for name, pieces in folder.files:
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as stream:
                    for piece in pieces:
                        stream.write(ray.get(piece))
            if digest_of(fresh) != folder.digest:
                remove(fresh)
                raise CorruptStore(f"{folder.origin} changed while it was sent to other machines")
            rename(fresh, target)
    return str(target)


@lru_cache(maxsize=1)
def fetch_value(shared: Shared) -> Any:
    """The value in a worker, which keeps the last one."""
    return import_module("ray").get(shared.reference)


def _node(ray: Any) -> str:
    return str(ray.get_runtime_context().get_node_id())


def _reachable(address: str) -> None:
    """Refuse an address at which nobody listens; Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"there is no Ray cluster at {address!r}: {error}") from None
