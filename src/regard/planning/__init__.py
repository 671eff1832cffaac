"""What a run will cost, before it is run: parameters, operations, memory, time and money."""

from regard.planning.devices import DEVICES, Device, device_called
from regard.planning.measured import here
from regard.planning.memory import Memory, Setup, count_memory
from regard.planning.operations import Operations, count_operations
from regard.planning.parameters import Parameters, count_parameters, outline
from regard.planning.plan import Cost, Plan, plan
from regard.planning.published import PUBLISHED, Published, Stage, published
from regard.planning.shapes import Shape, Work

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
