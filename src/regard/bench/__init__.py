"""Benchmarks against other libraries: the same work, threads and batches, in alternating turns, in one run."""

from regard.bench.peers import PEERS
from regard.bench.rounds import Options, Report, Row
from regard.bench.suites import SUITES, Suite, bench

__all__ = ["PEERS", "SUITES", "Options", "Report", "Row", "Suite", "bench"]
