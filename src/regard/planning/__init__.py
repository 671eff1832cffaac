"""What a run will cost, before it is run: parameters, operations, memory, time and money."""

from regard.planning.counting import Operations, Parameters, Shape, Work, count_operations, count_parameters, outline
from regard.planning.devices import DEVICES, Device, Memory, Setup, count_memory, device_called, here
from regard.planning.plan import Cost, Plan, plan
from regard.planning.reading import PUBLISHED, Published, Stage, published

__all__ = [
    "DEVICES",
    "PUBLISHED",
    "Cost",
    "Device",
    "Memory",
    "Operations",
    "Parameters",
    "Plan",
    "Published",
    "Setup",
    "Shape",
    "Stage",
    "Work",
    "count_memory",
    "count_operations",
    "count_parameters",
    "device_called",
    "here",
    "outline",
    "plan",
    "published",
]
