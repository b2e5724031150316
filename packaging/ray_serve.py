"""A tuplet server as a deployment of Ray Serve.

    TUPLET_STORES=/data/world.store serve run --app-dir packaging ray_serve:app

TUPLET_STORES holds stores as `tuplet serve` takes them, with blanks between; TUPLET_KEYS the file of hashed API keys,
without which only this machine is answered; TUPLET_REPLICAS how many there are.
"""

import os
from typing import Any

from ray import serve

from tuplet.server.app import Application
from tuplet.server.command import name_stores
from tuplet.server.keys import KeyFile
from tuplet.server.limits import ServerLimits
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.store import open_store


def application() -> Any:
    """The ASGI application of one replica."""
    stores = {name: open_store(path) for name, path in name_stores(os.environ["TUPLET_STORES"].split())}
    service = Service(stores, ServerLimits(), ServerMetrics())
    service.warm()
    keys = os.environ.get("TUPLET_KEYS")
    return Application(service, KeyFile(keys) if keys else None)


# Replicas may run elsewhere: they are told what this process was told.
GIVEN = {name: value for name, value in os.environ.items() if name in ("TUPLET_STORES", "TUPLET_KEYS")}


@serve.deployment(
    num_replicas=int(os.environ.get("TUPLET_REPLICAS", "2")),
    max_ongoing_requests=64,
    ray_actor_options={"runtime_env": {"env_vars": GIVEN}},
)
@serve.ingress(application)
class Tuplet:
    """Nothing of its own: the application answers."""


app = Tuplet.bind()
