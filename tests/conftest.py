"""Fixtures for all tests: one thread for torch, nothing from a hub."""

from __future__ import annotations

import copy
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import HealthCheck, settings
from scripts import load_script

from agentgym_py.env import EnvSpec, StopReason, TextEnv, registration
from agentgym_py.trajectory import Provenance, Step, Trajectory

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background is started without
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
settings.register_profile(  # an example takes longer while other programs run
    "agentgym", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("agentgym")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import tests and libraries without garbage collections, keep them out of later ones, and have fewer of these."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


_frozen: tuple[str, int] = ("", 0)
"""The module of tests that ran when the heap was frozen last, and the number of imported modules then."""
_MANY_MODULES = 100


@pytest.fixture(autouse=True)
def _frozen_heap(request: pytest.FixtureRequest) -> None:
    """Keep all that was imported so far out of garbage collections: a run collects several times a round.

    A test may import torch and transformers; without a freeze before the next one, each collection looks at them.
    """
    global _frozen
    (name, modules), path = _frozen, request.node.path.name
    if name != path or len(sys.modules) > modules + _MANY_MODULES:
        gc.collect()
        gc.freeze()
        _frozen = path, len(sys.modules)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Skip `os.fsync` in this process, which protects from power cuts only: a run syncs dozens of files a round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def episode() -> Callable[..., Trajectory]:
    """A function that makes a trajectory: actions, and any field of `Trajectory` or `Provenance` by name."""

    def make(*actions: str, task: str = "shop/train/easy/1", agent: str = "expert", **fields: Any) -> Trajectory:
        steps = tuple(
            Step(f"page {i}", f"Thought: so\nAction: {action}", "so", action, None, 0.0, True)
            for i, action in enumerate(actions)
        )
        usual = Trajectory(
            id="t0",
            provenance=Provenance("AgentShop-v0", 0, {"max_steps": 15}, task, 7, agent),
            split="train",
            kind="buy",
            difficulty="easy",
            instruction="Buy a red cup.",
            rules="You shop.",
            steps=steps,
            final_observation="Thanks.",
            reward=1.0,
            success=True,
            stop_reason=StopReason.TERMINATED,
        )
        return replace(usual, **fields)

    return make


@pytest.fixture(scope="module")
def faulty_env() -> Iterator[Any]:
    """Import `faulty_env.py` by a name that worker processes find, too."""
    here = str(Path(__file__).parent)
    sys.path.append(here)
    yield import_module("faulty_env")
    sys.path.remove(here)


@pytest.fixture(scope="session")
def tiny_policy() -> Any:
    """A random Llama of 40,000 parameters with a tokenizer learnt from the shop's pages; do not train it, copy it."""
    pytest.importorskip("torch")
    import torch

    from agentgym_py.agents import ExpertAgent
    from agentgym_py.collection import Collector, jobs_for
    from agentgym_py.policy import Policy
    from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config

    torch.set_num_threads(1)
    played = Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(40)))
    texts = [text for t in played for step in t.steps for text in (step.observation, step.reply)]
    tokenizer = build_tokenizer(texts, 768)
    return Policy(build_model(tiny_config(len(tokenizer), 32, 2, 2)), tokenizer, "tiny-test")


@pytest.fixture
def worlds_made(monkeypatch: pytest.MonkeyPatch) -> list[EnvSpec]:
    """What every world is made by from here on."""
    made, make = list[EnvSpec](), EnvSpec.make

    def noted(self: EnvSpec) -> TextEnv:
        made.append(self)
        return make(self)

    monkeypatch.setattr(EnvSpec, "make", noted)
    return made


@pytest.fixture(scope="session")
def fresh() -> Callable[[Any], Any]:
    """A function that copies a policy, so that a training leaves the fixture alone."""
    from agentgym_py.policy import Policy

    return lambda policy: Policy(copy.deepcopy(policy.model), policy.tokenizer, "copy")


@pytest.fixture
def own_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget, after a test, the worlds that it registered, and the files that it imported with their folders."""
    folders, worlds = set(sys.path), set(gymnasium.registry)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(registration.SOURCES, "")
    yield
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and str(Path(file).parent) in set(sys.path) - folders:
            del sys.modules[name]
    for name in set(gymnasium.registry) - worlds:
        del gymnasium.registry[name]


def _beside(name: str) -> Any:
    """A module beside this file, for which torch runs in one thread."""
    pytest.importorskip("torch")
    import torch

    torch.set_num_threads(1)
    return load_script(f"tests/{name}.py", name)


@pytest.fixture(scope="session")
def toy_envs() -> Any:
    """Load `toy_envs.py`: envs with a known optimum, a policy that learns them, random records."""
    return _beside("toy_envs")


@pytest.fixture(scope="session")
def loss_checks() -> Any:
    """Load `loss_checks.py`: random masks and checks of a loss."""
    return _beside("loss_checks")


@pytest.fixture(scope="session")
def zoo() -> Any:
    """Miniatures of model families, for which torch runs in one thread."""
    pytest.importorskip("trl")
    import torch

    from agentgym_py.testing import zoo

    torch.set_num_threads(1)
    return zoo


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this was the second of two processes, which have not met."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
