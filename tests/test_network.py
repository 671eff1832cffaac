"""The suite reaches nothing beyond this machine: what `conftest.py` refuses, and what it lets through."""

from __future__ import annotations

import asyncio
import errno
import socket
import urllib.error
import urllib.request

import pytest

ELSEWHERE = "192.0.2.1"  # of the addresses that are kept for documentation


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection((ELSEWHERE, 80), timeout=1),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (ELSEWHERE, 80)),
        lambda: socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80)),
        lambda: socket.create_connection(("example.org", 80), timeout=1),
        lambda: asyncio.run(asyncio.open_connection(ELSEWHERE, 80)),
    ],
)
def test_what_is_elsewhere_is_refused_and_told(reach, outside):
    with pytest.raises(OSError, match="tests have no network"):
        reach()
    assert len(outside) == 1
    outside.clear()


def test_a_refusal_that_is_swallowed_is_told_all_the_same(outside):
    with pytest.raises(urllib.error.URLError):
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://example.org/")
    assert outside == ["the address of example.org"]
    outside.clear()


def test_an_error_that_is_a_number_is_told(outside):
    with socket.socket() as probe:
        assert probe.connect_ex((ELSEWHERE, 80)) == errno.ENETUNREACH
    assert outside == [f"connect_ex {(ELSEWHERE, 80)}"]
    outside.clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_let_through(host, outside):
    with socket.create_server((host, 0)) as server:
        place = server.getsockname()[:2]
        socket.create_connection(place, timeout=5).close()
    with socket.socket() as probe:
        assert probe.connect_ex(place) == errno.ECONNREFUSED
    assert outside == []
