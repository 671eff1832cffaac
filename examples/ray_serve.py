"""The server of `regard serve` under Ray Serve: each replica has an engine of its own, and Ray shares out the requests.

    pip install 'regard[serve]' 'ray[serve]'
    python examples/ray_serve.py runs/gpt --replicas 2

Then any client of OpenAI's API asks http://127.0.0.1:8000/v1. A text has the same bits whichever replica writes it; prompts
that were read are kept by each replica for itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere

import ray
from ray import serve
from starlette.applications import Starlette

from regard.serving.messages import EngineOptions
from regard.serving.run import application


def deployment(folders: dict[str, str], replicas: int, threads: int) -> Any:
    """The server as a Ray Serve application."""

    def app() -> Starlette:  # called in each replica: an engine is never sent from one process to another
        return application(EngineOptions(folders=folders, threads=threads))

    @serve.deployment(
        num_replicas=replicas,
        max_ongoing_requests=256,  # an engine batches what it has; few requests at a time would leave it idle
        ray_actor_options={"num_cpus": threads},
        health_check_period_s=5,
    )
    @serve.ingress(app)
    class Regard:
        pass

    return Regard.bind()


def main() -> None:
    """Serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the folder of a model, served as `model`")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each replica")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    ended = threading.Event()
    ray.init(num_cpus=given.replicas * given.threads, include_dashboard=False)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ended.set())
    serve.start(http_options={"host": "127.0.0.1", "port": given.port})
    serve.run(deployment({"model": os.path.abspath(given.model)}, given.replicas, given.threads))
    print(f"serving model at http://127.0.0.1:{given.port}/v1 (end with Ctrl-C)", flush=True)
    ended.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
