"""Work on a Ray cluster: an executor whose workers are Ray actors, and folders that are sent to them.

Every node needs tuplet; stores, graphs and models are fetched by their content (`shipping`). A worker that dies is
started again, on another node if need be, and what it was doing is done again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from importlib import import_module
from logging import ERROR
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from tuplet.cluster.shipping import Folder, Shipment, pack, unpack
from tuplet.errors import BadInput, TupletError
from tuplet.files import PathLike

P = ParamSpec("P")
T = TypeVar("T")
TRIES = 3  # times that work is begun again after its worker died: what kills every worker ends in an error


class RayWorker:
    """What runs in an actor: calls of functions that keep their own state in the process."""

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of the function."""
        return function(*arguments)

    def node(self) -> str:
        """The node this worker runs on."""
        return _node(import_module("ray"))


class RayExecutor(ThreadPoolExecutor):
    """A pool of actors spread over a cluster; a thread here waits for each of them."""

    def __init__(self, address: str, workers: int | None = None, gpu: bool = False) -> None:
        """Connect to the cluster (`auto`, host:port, ray://…); by default a worker for each of its processors.

        With `gpu` there is a worker for each GPU instead.
        """
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
        count = workers or max(1, there)
        needed = {"num_cpus": 1, "num_gpus": 1} if gpu else {"num_cpus": 1}
        again = {"max_restarts": -1, "max_task_retries": TRIES}
        actor = ray.remote(**needed, **again, scheduling_strategy="SPREAD")(RayWorker)
        self.actors = [actor.remote() for _ in range(count)]
        self.idle: SimpleQueue[Any] = SimpleQueue()
        for worker in self.actors:
            self.idle.put(worker)
        self.shipments: dict[str, Shipment] = {}
        super().__init__(count)

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **_: P.kwargs) -> Future[T]:
        """Hand a call to the next idle actor."""
        return super().submit(self._call, function, arguments)

    def ship(self, folder: PathLike) -> Shipment:
        """A folder that workers find by `arrived`, wherever they are."""
        name = str(folder)
        if name not in self.shipments:
            self.shipments[name] = pack(folder, _node(self.ray), self.ray.put)
        return self.shipments[name]

    def nodes(self) -> set[str]:
        """The nodes that have a worker."""
        return set(self.ray.get([worker.node.remote() for worker in self.actors]))

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


def arrived(folder: Folder) -> str:
    """The path of a folder in a worker."""
    if isinstance(folder, str):
        return folder
    ray: Any = import_module("ray")
    return unpack(folder, _node(ray), ray.get)


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
