"""Metrics for Prometheus; those that vLLM has too have its names, with the prefix `regard:`."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.serving.link import EngineLink

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        model = ["model_name"]
        with_registry: dict[str, Any] = {"registry": self.registry}
        self.calls = Counter(
            "regard:http_requests", "Responses, by route and status.", ["route", "status"], **with_registry
        )
        self.asked = Counter("regard:request", "Requests to generate text.", model, **with_registry)
        self.succeeded = Counter("regard:request_success", "Those answered completely.", model, **with_registry)
        self.read_tokens = Counter("regard:prompt_tokens", "Prompt tokens.", model, **with_registry)
        self.kept_tokens = Counter(
            "regard:prompt_tokens_cached",
            "Prompt tokens whose keys and values came from the cache.",
            model,
            **with_registry,
        )
        self.written_tokens = Counter("regard:generation_tokens", "Generated tokens.", model, **with_registry)
        self.turned_away = Counter("regard:request_rejected", "Requests refused with status 429.", **with_registry)
        self.seconds = Histogram(
            "regard:e2e_request_latency_seconds", "Until the answer ends.", model, buckets=SECONDS, **with_registry
        )
        self.first_seconds = Histogram(
            "regard:time_to_first_token_seconds", "Until the first token.", model, buckets=SECONDS, **with_registry
        )
        self.running = Gauge("regard:num_requests_running", "Texts being generated.", model, **with_registry)
        self.waiting = Gauge(
            "regard:num_requests_waiting", "Requests that wait to be generated.", model, **with_registry
        )
        self.open = Gauge("regard:num_requests_open", "Requests that are not yet answered.", **with_registry)
        self.restarts = Gauge("regard:engine_restarts", "Restarts of the engine.", **with_registry)

    def answered(self, route: str, status: int) -> None:
        """Count a response, or the start of a stream."""
        self.calls.labels(route, str(status)).inc()

    def wrote(
        self, model: str, usage: dict[str, Any], seconds: float, *, first: float | None = None, done: bool = True
    ) -> None:
        """Count a request to generate text that has ended.

        Arguments:
            model: the name of the model.
            usage: numbers of tokens; of a cancelled request, those that had been sent.
            seconds: that the request took.
            first: seconds until the first token of a stream; None without one.
            done: whether it was answered completely.
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
        """All metrics in Prometheus' text format, and its media type."""
        for name, count in link.fullness.writing.items():
            self.running.labels(name).set(count)
        for name, count in link.fullness.waiting.items():
            self.waiting.labels(name).set(count)
        self.open.set(waiting)
        self.restarts.set(link.restarts)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
