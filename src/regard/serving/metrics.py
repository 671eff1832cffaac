"""What is counted, for Prometheus; where vLLM counts the same, under its name with the prefix `regard:`."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.serving.link import EngineLink

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        model = ["model_name"]
        with_registry: dict[str, Any] = {"registry": self.registry}
        self.calls = Counter(
            "regard:http_requests", "Answers, by route and status.", ["route", "status"], **with_registry
        )
        self.asked = Counter("regard:request", "Requests to write texts.", model, **with_registry)
        self.succeeded = Counter("regard:request_success", "Those answered to the end.", model, **with_registry)
        self.read_tokens = Counter("regard:prompt_tokens", "Tokens of prompts.", model, **with_registry)
        self.kept_tokens = Counter(
            "regard:prompt_tokens_cached", "Those of them that were not read anew.", model, **with_registry
        )
        self.written_tokens = Counter("regard:generation_tokens", "Tokens written.", model, **with_registry)
        self.turned_away = Counter("regard:request_rejected", "Requests turned away by 429.", **with_registry)
        self.seconds = Histogram(
            "regard:e2e_request_latency_seconds", "Of whole requests.", model, buckets=SECONDS, **with_registry
        )
        self.first_seconds = Histogram(
            "regard:time_to_first_token_seconds", "Of streams.", model, buckets=SECONDS, **with_registry
        )
        self.running = Gauge("regard:num_requests_running", "Texts being written.", model, **with_registry)
        self.waiting = Gauge("regard:num_requests_waiting", "Requests that wait.", model, **with_registry)
        self.open = Gauge("regard:num_requests_open", "Requests that are not answered yet.", **with_registry)
        self.restarts = Gauge("regard:engine_restarts", "Times the engine was started again.", **with_registry)

    def answered(self, route: str, status: int) -> None:
        """A request was answered, or a stream begun."""
        self.calls.labels(route, str(status)).inc()

    def wrote(
        self, model: str, usage: dict[str, Any], seconds: float, *, first: float | None = None, done: bool = True
    ) -> None:
        """A request ended.

        Arguments:
            model: whose.
            usage: its tokens. Of a request that was given up those it was told of.
            seconds: it took.
            first: seconds until its first token, of a stream that came so far.
            done: whether it was answered to its end.
        """
        self.read_tokens.labels(model).inc(usage["prompt_tokens"])
        self.kept_tokens.labels(model).inc(usage["prompt_tokens_details"]["cached_tokens"])
        self.written_tokens.labels(model).inc(usage["completion_tokens"])
        if first is not None:
            self.first_seconds.labels(model).observe(first)
        if done:
            self.succeeded.labels(model).inc()
            self.seconds.labels(model).observe(seconds)

    def text(self, link: EngineLink, waiting: int) -> tuple[bytes, str]:
        """All counts in Prometheus' format, and its media type."""
        for name, count in link.fullness.writing.items():
            self.running.labels(name).set(count)
        for name, count in link.fullness.waiting.items():
            self.waiting.labels(name).set(count)
        self.open.set(waiting)
        self.restarts.set(link.restarts)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
