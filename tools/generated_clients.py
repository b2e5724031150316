"""Clients generated from the description of a server: they compile, and the one in Python asks.

    python tools/generated_clients.py world.store

`pip install openapi-python-client`; for TypeScript `npm install openapi-typescript typescript` in a folder, given
as `--node FOLDER`.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

TYPESCRIPT = """
import type { components, operations, paths } from "./api";
type Ask = paths["/ask"]["post"];
export const asked: Ask["requestBody"]["content"]["application/json"] = { query: "?x : borders(?x, france)", k: 3 };
export function best(given: components["schemas"]["AnswersBody"]): [string, number] {
  const first = given.answers[0]!;
  return [String(first.values["x"]), first.truth + given.bound];
}
export function rows(given: operations["sparql"]["responses"]["200"]["content"]["application/sparql-results+json"]) {
  return given.results?.bindings.map((row) => row["x"]!.value) ?? [];
}
// @ts-expect-error a wrong key is found by the compiler
export const wrong: Ask["requestBody"]["content"]["application/json"] = { qury: "" };
"""


def main() -> None:
    """Serve, generate, compile, ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--query", default="?x : borders(?x, france)")
    parser.add_argument("--node", metavar="FOLDER", help="where openapi-typescript and typescript are installed")
    arguments = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tuplet", "serve", arguments.store, "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        server.stdout.readline()  # its address, once it answers
        with tempfile.TemporaryDirectory() as folder:
            description = Path(folder) / "openapi.json"
            description.write_bytes(_read(f"{url}/openapi.json"))
            print("Python:", python_client(description, url, arguments.query))
            if arguments.node:
                print("TypeScript:", typescript_client(description, Path(arguments.node)))
    finally:
        server.terminate()
        server.wait(30)


def _read(address: str) -> bytes:
    for _ in range(300):
        try:
            with urlopen(address) as response:
                return bytes(response.read())
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def python_client(description: Path, url: str, query: str) -> str:
    """Generate a client with openapi-python-client, compile it, ask with it."""
    target = description.parent / "generated_client"
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(description)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it calls ruff
    subprocess.run(
        [*command, "--output-path", str(target), "--meta", "none"],
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )
    assert compileall.compile_dir(target, quiet=1, force=True), "the client does not compile"
    sys.path.insert(0, str(target.parent))
    try:
        package = importlib.import_module("generated_client")
        models = importlib.import_module("generated_client.models")
        client = package.Client(base_url=url)
        operations = {"ask", "entity", "explain", "parse", "plan", "schema", "sparql", "write"}
        called = {name: importlib.import_module(f"generated_client.api.default.{name}") for name in operations}
        answers = called["ask"].sync(client=client, body=models.AskRequest(query=query, k=3))
        assert isinstance(answers, models.AnswersBody), answers
        assert isinstance(called["schema"].sync(client=client), models.SchemaBody)
        assert isinstance(called["plan"].sync(client=client, body=models.PlanRequest(query=query)), models.PlanBody)
        wrong = called["ask"].sync(client=client, body=models.AskRequest(query="?x : r("))
        assert isinstance(wrong, models.ErrorBody), wrong
        return f"{len(answers.answers)} answers, the best {json.dumps(answers.answers[0].values.to_dict())}"
    finally:
        sys.path.remove(str(target.parent))


def typescript_client(description: Path, node: Path) -> str:
    """Generate types with openapi-typescript, and compile code that uses them."""
    folder = description.parent
    tools = node / "node_modules" / ".bin"
    made = folder / "api.d.ts"
    command = [str(tools / "openapi-typescript"), str(description), "-o", str(made), "--default-non-nullable=false"]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "use.ts").write_text(TYPESCRIPT)
    subprocess.run([str(tools / "tsc"), "--noEmit", "--strict", str(folder / "use.ts")], check=True)
    return f"{len(made.read_text().splitlines())} lines of types, used without an error"


if __name__ == "__main__":
    main()
