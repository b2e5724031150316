"""Runs on a Ray cluster: an executor whose workers are Ray actors, each of which opens the store once.

Every node needs tuplet and the store under the same path; results are written where the run was started.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from importlib import import_module
from logging import ERROR
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from tuplet.errors import BadInput, TupletError

P = ParamSpec("P")
T = TypeVar("T")


class RayWorker:
    """What runs in an actor: calls of functions that keep their own state in the process."""

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of the function."""
        return function(*arguments)

    def node(self) -> str:
        """The node this worker runs on."""
        return str(import_module("ray").get_runtime_context().get_node_id())


class RayExecutor(ThreadPoolExecutor):
    """A pool of actors spread over a cluster; a thread here waits for each of them."""

    def __init__(self, address: str, workers: int | None = None) -> None:
        """Connect to the cluster (`auto`, host:port, ray://…); by default a worker for each of its processors."""
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
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(RayWorker)
        self.actors = [actor.remote() for _ in range(count)]
        self.idle: SimpleQueue[Any] = SimpleQueue()
        for worker in self.actors:
            self.idle.put(worker)
        super().__init__(count)

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **_: P.kwargs) -> Future[T]:
        """Hand a call to the next idle actor."""
        return super().submit(self._call, function, arguments)

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


def _reachable(address: str) -> None:
    """Refuse an address at which nobody listens; Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"there is no Ray cluster at {address!r}: {error}") from None
