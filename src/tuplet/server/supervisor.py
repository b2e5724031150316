"""The parent of the workers: it starts them, replaces those that die, and switches all of them to a new generation.

It owns the listening socket but accepts nothing: the workers do (`connections`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuplet._version import __version__
from tuplet.errors import BadInput, TupletError
from tuplet.server.command import ServerSettings
from tuplet.server.connections import BACKLOG, ConnectionCounts
from tuplet.server.control import ChannelError, Control, Generations
from tuplet.server.keys import stamp_file
from tuplet.server.metrics import ServerMetrics

VARIABLE = "NOTIFY_SOCKET"


def tell_manager(state: str) -> None:
    """Minimal `sd_notify`: `READY=1`, `STOPPING=1` and others."""
    address = os.environ.get(VARIABLE, "")
    if not address:
        return
    if state == "RELOADING=1":
        state += f"\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.send(state.encode())


PING = 10.0  # seconds without an answer after which a worker is replaced
SETTLED = 10.0  # seconds after which a worker that ends is replaced at once
LONGEST_WAIT = 30.0  # seconds between two attempts to start a worker that does not
PREPARE, STEP = 300.0, 10.0  # seconds to open a generation; to hold and to switch
MANIFESTS = ("store.json", "manifest.json")
log = logging.getLogger("tuplet.server")


@dataclass(eq=False)
class WorkerProcess:
    """A worker as its parent sees it."""

    process: subprocess.Popen[bytes]
    control: Control
    slot: int
    began: float
    generations: Generations | None = None  # None until it is ready
    serving: bool = False
    failure: str = ""

    async def end(self) -> str:
        """Wait until it has ended; returns the reason, empty if it ended by itself."""
        await asyncio.shield(self.control.closed)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, 5)
        if self.process.poll() is None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
        code = self.process.returncode
        if self.failure:
            return self.failure
        return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}" if code else ""

    def reason(self) -> str:
        """The kind of its end, for metrics."""
        code = self.process.returncode
        return "failed" if self.failure else signal.Signals(-code).name if code < 0 else f"exit {code}"


class Supervisor:
    """Workers, the socket they accept from, and the generation they all serve."""

    def __init__(
        self, settings: ServerSettings, count: int, listening: socket.socket, ready: Callable[[], None]
    ) -> None:
        self._settings, self._count, self._listening, self._ready = settings, count, listening, ready
        self._file = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]) / "connections"
        self._file.write_bytes(bytes(4 * count))
        self._connections = ConnectionCounts(self._file)
        self._workers: list[WorkerProcess] = []
        self._turn = asyncio.Lock()  # one switch at a time, and nobody is let in meanwhile
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._generations: Generations | None = None  # that all workers serve
        self._metrics = ServerMetrics()
        self._problem = ""  # of the last attempt to take the newest generation
        self._unstartable = ""  # why the first worker did not start

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._handle_signal)
        self._loop.add_signal_handler(signal.SIGHUP, lambda: self._task(self._hangup()))
        slots = [self._task(self._keep(slot)) for slot in range(self._count)]
        self._task(self._watch())
        await self._stop.wait()
        await self._end(slots)
        if self._unstartable:
            raise BadInput(self._unstartable)

    def stats(self) -> dict[str, Any]:
        """The state of the whole: `workers` wanted, `serving` now, `problem` (why the newest generation is
        not served, or ""), `stopping`."""
        return {
            "workers": self._count,
            "serving": sum(worker.serving for worker in self._workers),
            "problem": self._problem,
            "stopping": self._stop.is_set(),
        }

    # --- workers ---------------------------------------------------------------------------------------------------

    async def _keep(self, slot: int) -> None:
        """Keep one worker running; after each failure in a row it waits twice as long before it starts another one."""
        failures = 0
        while not self._stop.is_set():
            worker = await self._start(slot)
            if self._stop.is_set():  # meanwhile
                worker.process.kill()
            how = await worker.end()
            self._workers.remove(worker)
            self._connections.set(-1, slot)
            tell_manager(f"STATUS={self._status()}")
            if self._stop.is_set():
                return
            self._metrics.count("tuplet_worker_deaths_total", worker.reason())
            if self._generations is None and (worker.failure or not self._workers):
                self._unstartable = worker.failure or f"the server did not start: its worker {how}"
                self._stop.set()
                return
            settled = worker.serving and self._loop.time() - worker.began > SETTLED
            failures = 0 if settled or not how else failures + 1
            wait = min(LONGEST_WAIT, 0.25 * 2**failures) if failures else 0.0
            log.warning("worker %d %s; a new one starts in %g s", worker.process.pid, how or "has ended", wait)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait)

    async def _start(self, slot: int) -> WorkerProcess:
        self._connections.set(-1, slot)
        ours, theirs = socket.socketpair()
        sockets = [theirs.fileno(), self._listening.fileno()]
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        # The worker finds the modules that this process found, and none in the folder it happens to be in.
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tuplet.server.worker"],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=sockets,
                process_group=0,  # Ctrl-C is for the parent, which tells its workers
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:  # it may have ended already
            process.stdin.write(pickle.dumps((*sockets, self._file, slot, self._count, self._settings)))
        control = await Control.open(ours)
        worker = WorkerProcess(process, control, slot, self._loop.time())
        control.on("ready", lambda generations: self._admit(worker, generations))
        control.on("failed", lambda reason: setattr(worker, "failure", reason))
        control.on("draining", lambda: self._leave(worker))
        control.on("reload", self.reload)
        control.on("stats", self.stats)
        self._workers.append(worker)
        return worker

    def _leave(self, worker: WorkerProcess) -> None:
        worker.serving = False
        self._connections.set(-1, worker.slot)

    async def _admit(self, worker: WorkerProcess, generations: Generations) -> None:
        """Give connections to a worker, once all serve the generation it has found."""
        worker.generations = generations
        while not self._stop.is_set() and not worker.control.closed.done():
            try:
                async with self._turn:
                    if self._generations is None:
                        self._generations = generations
                    elif worker.generations != self._generations:
                        await self._together([*self._serving(), worker])
                    if not worker.control.closed.done():
                        worker.serving = True
                        self._listening.listen(BACKLOG)  # not before somebody can answer
                        worker.control.tell("serve")
                        self._task(self._ping(worker))
                        self._announce()
                    return
            except TupletError as error:
                self._problem = str(error)
                log.warning("worker %d has to wait: %s", worker.process.pid, error)
                await asyncio.sleep(1)

    def _serving(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.serving]

    def _announce(self) -> None:
        ready, self._ready = self._ready, lambda: None
        ready()
        stores = ", ".join(f"{name} ({number})" for name, (number, *_) in (self._generations or {}).items())
        log.info("ready: tuplet %s, %s %s", __version__, self._status(), stores)
        tell_manager(f"READY=1\nSTATUS={self._status()}")

    def _status(self) -> str:
        return f"{len(self._serving())} of {self._count} workers serve"

    async def _ping(self, worker: WorkerProcess) -> None:
        """Replace a worker that hangs."""
        while not worker.control.closed.done() and not self._stop.is_set():
            try:
                await worker.control.ask("ping", timeout=PING)
            except ChannelError:
                if not worker.control.closed.done():
                    worker.failure = f"did not answer for {PING:g} s"
                    worker.process.kill()
                return
            await asyncio.sleep(1)

    # --- generations -----------------------------------------------------------------------------------------------

    async def reload(self) -> None:
        try:
            async with self._turn:
                await self._together(self._serving())
        except TupletError as error:
            self._problem = str(error)
            self._metrics.count("tuplet_reloads_total", "no")
            raise
        self._metrics.count("tuplet_reloads_total", "yes")
        self._problem = ""

    async def _together(self, workers: Sequence[WorkerProcess]) -> None:
        """Prepare, hold, switch. A dead worker is left out; one that fails while others switch is replaced."""
        for _ in range(10):
            replies = await asyncio.gather(*(self._prepare(worker) for worker in workers))
            workers = [worker for worker, reply in zip(workers, replies, strict=True) if reply is not None]
            prepared = [reply for reply in replies if reply is not None]
            if all(one == prepared[0] for one in prepared):
                break
        else:
            raise ChannelError("the stores change more quickly than they can be opened")
        if any(worker.generations != prepared[0] for worker in workers):
            await self._step("hold", workers)
            self._generations = prepared[0]
            await self._step("switch", workers)
            for worker in workers:
                worker.generations = prepared[0]
            numbers = ", ".join(f"{name} {number}" for name, (number, *_) in prepared[0].items())
            log.info("generation served: %s", numbers)

    async def _prepare(self, worker: WorkerProcess) -> Generations | None:
        """The generations that a worker could serve; None if it has ended."""
        found: Generations | None = None
        try:
            found = await worker.control.ask("prepare", timeout=PREPARE)
        except ChannelError:
            if not worker.control.closed.done():
                raise
        return found

    async def _step(self, kind: str, workers: Sequence[WorkerProcess]) -> None:
        async def one(worker: WorkerProcess) -> None:
            try:
                await worker.control.ask(kind, timeout=STEP)
            except ChannelError as error:
                if not worker.control.closed.done():
                    worker.failure = f"did not {kind}: {error}"
                    self._leave(worker)
                    worker.process.kill()

        await asyncio.gather(*map(one, workers))

    async def _hangup(self) -> None:
        """SIGHUP: reload the stores; keys are reloaded without it."""
        tell_manager("RELOADING=1")
        await self._quietly_reload()
        tell_manager("READY=1")

    async def _quietly_reload(self) -> None:
        try:
            await self.reload()
        except TupletError as error:
            log.warning("the generation served stays: %s", error)

    async def _watch(self) -> None:
        before = self._stamps()
        while self._settings.watch and not self._stop.is_set():
            await asyncio.sleep(1)
            now = self._stamps()
            if now != before and self._generations is not None:
                before = now
                await self._quietly_reload()

    def _stamps(self) -> list[Any]:
        return [stamp_file(Path(path) / name) for _, path in self._settings.stores for name in MANIFESTS]

    # --- the end ---------------------------------------------------------------------------------------------------

    def _handle_signal(self) -> None:
        if self._stop.is_set():  # asked twice: at once
            for worker in self._workers:
                worker.process.kill()
        self._stop.set()

    async def _end(self, slots: Sequence[asyncio.Task[None]]) -> None:
        """Accept nothing more, let the workers finish what is in flight."""
        tell_manager("STOPPING=1")
        if self._generations is not None:
            log.info("stopping: what is in flight is finished")
            await asyncio.sleep(self._settings.drain)  # /ready says no meanwhile
        for worker in self._workers:
            if worker.generations is None:  # still starting: nothing is in flight
                worker.process.kill()
            with suppress(ChannelError):
                worker.control.tell("drain")
        self._listening.close()
        await asyncio.wait(slots, timeout=self._settings.limits.max_time + 10)
        for worker in self._workers:
            worker.process.kill()
        await asyncio.wait(slots)

    def _task(self, coroutine: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("in the supervisor", exc_info=error)
