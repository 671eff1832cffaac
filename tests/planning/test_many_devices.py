"""Plans against published runs, and what many devices exchange, worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from regard.errors import InputError
from regard.planning import PETAFLOP_DAYS, RUNS, Network, exchange, plan

DAY = 86_400 * 1e15


@pytest.mark.parametrize("name", PETAFLOP_DAYS)
def test_petaflop_days_are_those_of_table_d_1(name):
    assert plan(name).rule / DAY == pytest.approx(PETAFLOP_DAYS[name], rel=0.005)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.model)
def test_device_hours_are_the_published_ones_within_15_percent(run):
    assert plan(run.model, device=run.device, count=run.count, utilisation=run.utilisation).cost.device_hours == (
        pytest.approx(run.hours, rel=0.15)
    )


def test_the_speed_of_llama_65b_gives_its_time():
    """380 tokens a second on each of 2,048: 1.4 trillion tokens in about 21 days, as the paper says."""
    found = plan("llama-65b", device="a100-80", count=2048, tokens_per_second=380 * 2048)
    assert found.cost.seconds / 86_400 == pytest.approx(20.8, abs=0.1)
    assert found.cost.device_hours == pytest.approx(1_022_362, rel=0.002)


def seconds(network, **changes):
    given = {
        "count": 1024,
        "link": 300e9,
        "compute": 10.0,
        "parameters": 10**10,
        "blocks": 40,
        "width": 5000,
        "tokens": 4e6,
    }
    return exchange(network, **(given | changes))


def test_bytes_over_links_are_seconds():
    ddp = seconds(Network(between=25e9))
    assert ddp.data == pytest.approx(2 * 4e10 * 1023 / 1024 / 25e9)
    assert (ddp.inside, ddp.hidden) == (0.0, ddp.data)
    fsdp = seconds(Network(between=25e9, parallel="fsdp"), batches=2)
    assert fsdp.data == pytest.approx(5 / 2 * ddp.data)
    divided = seconds(Network(between=25e9, tensor=8))
    assert divided.data == pytest.approx(2 * 4e10 / 8 * 127 / 128 / 25e9)
    assert divided.inside == pytest.approx(4 * 40 * 2 * 7 / 8 * (2 * 5000 * 4e6 / 128) / 300e9)
    assert divided.seconds == pytest.approx(10.0 + divided.inside)  # gradients travel while it computes
    assert seconds(Network(between=25e9, tensor=8), recomputed=True).inside == pytest.approx(1.5 * divided.inside)
    slow = seconds(Network(between=1e9))
    assert slow.seconds == pytest.approx(10.0 + slow.data - 10.0 * 2 / 3)
    assert seconds(Network(between=1e9), count=8).data == pytest.approx(2 * 4e10 * 7 / 8 / 300e9)  # of one machine


def test_one_device_exchanges_nothing_and_more_take_less_time_but_never_in_proportion():
    found = [plan("llama-7b", count=count, network=25, utilisation=0.5) for count in (1, 8, 64, 512, 1024)]
    assert found[0].exchange is not None
    assert found[0].exchange.share == 1
    hours = [each.cost.device_hours for each in found]
    assert hours == sorted(hours)
    assert all(one.cost.seconds > other.cost.seconds for one, other in pairwise(found))
    assert found[0].cost.device_hours == pytest.approx(plan("llama-7b", utilisation=0.5).cost.device_hours)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"network": 0}, "--network is 0"),
        ({"tensor": 8}, "--network is 0"),
        ({"network": 25, "tensor": 3}, "cannot be divided"),
        ({"network": 25, "tokens_per_second": 1e6}, "leave out --network"),
        ({"network": 25, "tokens": 1e9}, "its number of updates"),
        ({"network": 25, "count": 4096}, "fewer than the 4,096 groups"),
    ],
)
def test_what_cannot_be_is_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        plan("llama-7b", **({"count": 1024} | given))
