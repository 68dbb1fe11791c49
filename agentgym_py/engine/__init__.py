"""Tokens in, tokens out: what an engine is, and the engines, which load torch only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgym_py.engine.base import (
    BatchEngine,
    Engine,
    Generation,
    GenerationBatch,
    RemoteEngine,
    ServerKind,
    SyncWeights,
)
from agentgym_py.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from agentgym_py.engine.hf import HFEngine
    from agentgym_py.engine.server import ServerEngine

__all__ = [
    "BatchEngine",
    "Engine",
    "Generation",
    "GenerationBatch",
    "HFEngine",
    "RemoteEngine",
    "SamplingParams",
    "ServerEngine",
    "ServerKind",
    "SyncWeights",
]


def __getattr__(name: str) -> Any:
    modules = {"HFEngine": "hf", "ServerEngine": "server"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
