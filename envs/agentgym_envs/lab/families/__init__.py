"""The families of tasks; each draws, judges and solves its kinds."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_envs.lab.families import breeding, electricity, finding, growing, measuring, mixing, planes, states
from agentgym_envs.lab.families.family import Family

FAMILIES: Mapping[str, Family] = {
    kind: family
    for module in (states, measuring, electricity, finding, growing, breeding, mixing, planes)
    for family in module.FAMILIES
    for kind in family.points
}
"""Every task kind and its family."""
