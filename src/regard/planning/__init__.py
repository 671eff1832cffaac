"""What a run will cost before it is run: parameters, operations, memory, time and money."""

from regard.planning.counting import Operations, Parameters, Shape, Work, count_operations, count_parameters, outline
from regard.planning.devices import DEVICES, Device, Memory, Setup, count_memory, device_called, here
from regard.planning.exchange import Exchange, Network, exchange
from regard.planning.plan import Cost, Plan, plan
from regard.planning.published_models import PUBLISHED, Published, Stage, published
from regard.planning.runs import PETAFLOP_DAYS, RUNS, Run

__all__ = [
    "DEVICES",
    "PETAFLOP_DAYS",
    "PUBLISHED",
    "RUNS",
    "Cost",
    "Device",
    "Exchange",
    "Memory",
    "Network",
    "Operations",
    "Parameters",
    "Plan",
    "Published",
    "Run",
    "Setup",
    "Shape",
    "Stage",
    "Work",
    "count_memory",
    "count_operations",
    "count_parameters",
    "device_called",
    "exchange",
    "here",
    "outline",
    "plan",
    "published",
]
