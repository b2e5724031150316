"""One engine of the shoot-out as a process: it answers one line of JSON with another (`shootout.py` asks)."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from shootout_engines import ENGINES, Edges
from shootout_sql import CannotExpress


class Watch(threading.Thread):
    """Interrupts the engine when a query has used its processor time; what cannot be interrupted is killed outside."""

    def __init__(self, engine: Any, limit: float) -> None:
        super().__init__(daemon=True)
        self.engine, self.limit = engine, limit
        self.end: float | None = None

    def run(self) -> None:
        while True:
            time.sleep(0.05)
            if self.end is not None and time.process_time() > self.end:
                self.end = None
                self.engine.interrupt()


def memory_of(key: str) -> int:
    """A size from /proc/self/status in bytes: VmRSS now, VmHWM at the most."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(key))


def serve(name: str, folder: Path, limit: float, memory: int) -> None:
    """Load the edges, then answer lines {"clauses", "k", "least"} until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if name in ("sqlite", "clingo", "problog", "oxigraph"):  # the others have limits of their own
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    edges, kind = Edges.read(folder), ENGINES[name.removesuffix("+hint")]
    before, start = memory_of("VmRSS"), time.process_time()
    try:
        engine = kind(edges, memory)
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__} {error}"[:200]}), flush=True)
        return
    reply: dict[str, Any] = {"load_s": time.process_time() - start, "loaded": memory_of("VmRSS") - before}
    print(json.dumps(reply), flush=True)
    watch = Watch(engine, limit) if hasattr(engine, "interrupt") else None
    if watch is not None:
        watch.start()
    for line in sys.stdin:
        asked = json.loads(line)
        used, wall = time.process_time(), time.perf_counter()
        if watch is not None:
            watch.end = used + limit
        reply = {}
        try:
            answer = engine.ask(asked["clauses"], asked["k"], asked["least"] if name.endswith("+hint") else None)
            reply = {"ms": 1e3 * (time.process_time() - used), "wall": 1e3 * (time.perf_counter() - wall)}
            if "crisp" in name or name == "oxigraph":
                width = asked["clauses"][0]["free"]
                rows = np.unique(np.array([row for row, _ in answer], np.int64).reshape(len(answer), width), axis=0)
                reply["answer"] = [[[len(rows)], 1.0], [[hashlib.sha256(rows.tobytes()).hexdigest()], 1.0]]
            else:
                reply["answer"] = answer
        except CannotExpress as error:
            reply["cannot"] = str(error)
        except MemoryError:
            reply["failed"] = "memory"
        except Exception as error:
            out = time.process_time() - used > 0.9 * limit
            reply["failed"] = (
                "time" if out else "memory" if "memory" in str(error).lower() else str(error).split("\n")[0][:60]
            )
        if watch is not None:
            watch.end = None
        print(json.dumps(reply | {"peak": memory_of("VmHWM") - before}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
