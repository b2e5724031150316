"""The routes that are about stores as a whole: which generation is served, and how it is changed."""

from __future__ import annotations

from typing import Any

from tuplet._version import __version__
from tuplet.server import models
from tuplet.server.editing import Editor
from tuplet.server.encoding import encode
from tuplet.server.processes.control import ChannelError
from tuplet.server.reply_models import ChangedBody, HealthBody, ReadyBody, ReloadBody
from tuplet.server.requests.http import JSON, HTTPProblem, Reply, Request, Route
from tuplet.server.requests.keys import KeyOwner
from tuplet.server.service import Service


def store_routes(service: Service) -> list[Route]:
    """Health, readiness, reloading and changes."""
    served, editor = service.served, Editor(service.served, service.limits.max_time)

    async def health(request: Request, _: None) -> Reply:
        state = await served.state()
        good = state["serving"] >= state["workers"] and not state["problem"]
        told: dict[str, Any] = {"status": "ok" if good else "degraded", "version": __version__}
        told |= {name: state[name] for name in ("workers", "serving")}
        if request.trusted:
            told |= {
                "problem": _problem(state["problem"], request.key) or None,
                "stores": _generations(service, request.key),
            }
        return Reply(encode(told))

    async def ready(_: Request, __: None) -> Reply:
        if served.draining or (await served.state())["stopping"]:
            return Reply(encode({"error": "the server finishes what it has, and ends", "kind": "stopping"}), 503)
        return Reply(encode({"ready": True}))

    async def reload(request: Request, _: None) -> Reply:
        before = served.generations()
        try:
            await served.reload()
        except ChannelError as error:
            raise HTTPProblem(503, f"the generation served stays: {_problem(str(error), request.key)}") from None
        if served.problems:
            problem = _problem("; ".join(served.problems.values()), request.key)
            raise HTTPProblem(503, f"the generation served stays: {problem}")
        changed = served.generations() != before
        return Reply(encode({"changed": changed, "stores": _generations(service, request.key)}))

    async def add(request: Request, asked: models.AddParameters) -> Reply:
        return Reply(encode(await editor.add(service.named(asked.store), request, asked)))

    async def remove(request: Request, asked: models.ChangeParameters) -> Reply:
        return Reply(encode(await editor.remove(service.named(asked.store), request, asked)))

    changed: dict[str, Any] = {JSON: ChangedBody}
    return [
        Route("GET", "/health", "health", "Whether the server is up", health, gives={JSON: HealthBody}, scope="open"),
        Route(
            "GET",
            "/ready",
            "ready",
            "Whether requests are welcome: 503 while the server ends",
            ready,
            gives={JSON: ReadyBody},
            scope="open",
            statuses=(503,),
        ),
        Route(
            "POST",
            "/reload",
            "reload",
            "Serve what is newest on disk; afterwards no worker serves anything older",
            reload,
            gives={JSON: ReloadBody},
            scope="admin",
            statuses=(503,),
        ),
        Route(
            "POST",
            "/add",
            "add",
            "Add facts; afterwards all workers know them",
            add,
            models.AddRequest,
            changed,
            "write",
            (409, 503),
            tables=models.AddParameters,
        ),
        Route(
            "POST",
            "/remove",
            "remove",
            "Remove facts; afterwards no worker states them",
            remove,
            models.RemoveRequest,
            changed,
            "write",
            (409, 503),
            tables=models.ChangeParameters,
        ),
    ]


def _problem(text: str, key: KeyOwner | None) -> str:
    """What is wrong; it names stores and files, so a key that does not open all of them learns no more than that."""
    return (
        "a store cannot be opened; the log says more" if text and key is not None and key.stores is not None else text
    )


def _generations(service: Service, key: KeyOwner | None) -> dict[str, dict[str, Any]]:
    return {
        name: {"generation": store.generation, "hash": store.hash, "graph": store.graph.hash}
        for name, store in service.served.current.items()
        if key is None or key.sees(name)
    }
