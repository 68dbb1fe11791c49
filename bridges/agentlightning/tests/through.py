"""The scripted agent through Agent Lightning: server, gateway, local controller and the trainer's rollout manager."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Queue
from typing import Any
from unittest import mock

from agentgym_agentlightning import local_runner, rows
from agentlightning.client import AgentLightningAsyncClient
from agentlightning.controller.local_reconciler import LocalReconciler, _run_local_reconciler_worker
from agentlightning.schemas import RolloutState
from agentlightning.server.app import create_app
from agentlightning.verl.agl_rollout_manager import AglRolloutManager, CompletedRollout
from chat_server import Reply, chat_server, reply_of
from checks import play_rows, serving
from omegaconf import OmegaConf
from scripted import SEED, Played, Script, World

from agentgym_py.env import StopReason

KEY = "secret"
PROXY = {"model_name": "scripted", "train": {"temperature": 1}, "val": {"temperature": 0.7}}


class Worker(threading.Thread):
    """The controller's worker in a thread instead of a process, so that a test can replace what it calls."""

    pid = 1 << 30  # no process has it
    returncode: int | None = None

    def __init__(self, agent: str, env: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self._agent = agent
        self._env = {name: value for name, value in env.items() if os.environ.get(name) != value}

    def run(self) -> None:
        """Play; there is one worker at a time, so the environment is its own."""
        os.environ.update(self._env)
        self.returncode = _run_local_reconciler_worker(self._agent)

    async def wait(self) -> None:
        """Wait for its end."""
        await asyncio.to_thread(self.join)


async def start_here(*command: str, env: Mapping[str, str], **_: Any) -> Worker:
    """Start a worker in the place of `asyncio.create_subprocess_exec`."""
    worker = Worker(command[-1], env)
    worker.start()
    return worker


@contextmanager
def controller(url: str, size: int = 1) -> Iterator[LocalReconciler]:
    """Run the local controller in a thread."""
    found = Queue[tuple[asyncio.AbstractEventLoop, LocalReconciler]]()

    async def reconcile() -> None:
        async with AgentLightningAsyncClient(base_url=url, key=KEY, timeout=60) as api:
            runner = {"maximum_size": size, "poll_interval": 0.1}
            server = {"url": url, "agent_url": None, "key": KEY}
            config = OmegaConf.create({"runner_type": "local", "agl_server": server, "local_runner": runner})
            reconciler = LocalReconciler(api, config)
            found.put((asyncio.get_running_loop(), reconciler))
            await reconciler.run()

    thread = threading.Thread(target=lambda: asyncio.run(reconcile()), daemon=True)
    thread.start()
    loop, reconciler = found.get(timeout=60)
    try:
        yield reconciler
    finally:
        loop.call_soon_threadsafe(reconciler.stop)
        thread.join(timeout=60)


def ask(url: str, model: str, table: Sequence[dict[str, Any]], runner: dict[str, Any], **manager: Any) -> Any:
    """Let the trainer's rollout manager ask for the rollouts of rows, in their order."""
    train = manager.pop("is_train", True)
    asks = AglRolloutManager(
        agl_base_url=url, agl_key=KEY, model="scripted", step=0, poll_interval_seconds=1,
        local_agent_class=runner["agent_class"], local_env_map=runner["env_map"], **manager,
    )  # fmt: skip
    asks.delete_model()
    asks.register_model([model])
    columns = {name: [row[name] for row in table] for name in table[0]}
    rollouts = asks.enqueue_and_wait_until_completed(columns, is_train=train)
    return sorted(rollouts, key=lambda rollout: rollout.sample_idx_in_step)


def run(
    table: Sequence[dict[str, Any]], reply: Reply, attempts: int = 1, max_turns: int | None = None, **manager: Any
) -> list[CompletedRollout]:
    """Play rows, each in a group, in this process."""
    app = create_app({"key": KEY, "default_proxy": PROXY})
    with (
        mock.patch.object(asyncio, "create_subprocess_exec", start_here),
        chat_server(reply) as model, serving(app) as url, controller(url),
    ):  # fmt: skip
        return ask(url, model, table, local_runner(max_turns), train_rollout_n=attempts, **manager)


def rows_of(world: World, scripts: Sequence[Script]) -> list[dict[str, Any]]:
    """The rows of the scripts' tasks, without rules."""
    return rows(world.spec, range(len(scripts)), prompt="none", seed=SEED)


def read(rollout: CompletedRollout) -> Played:
    """Read a rollout as the trainer gets it; its tokens are those of every reply."""
    (about,) = (event["data"] for event in rollout.events if event["event_type"] == "reward")
    requests = [event["data"] for event in rollout.events if event["event_type"] == "model_request"]
    assert rollout.rollout_state is RolloutState.SUCCEEDED and rollout.final_reward == about["value"]
    assert len(rollout.triplets) == len(requests) == about["steps"]
    for triplet, request in zip(rollout.triplets, requests, strict=True):
        assert bytes(triplet.response["token_ids"]).decode() == request["response"]["choices"][0]["message"]["content"]
    seen = [message["content"] for message in requests[-1]["request"]["messages"] if message["role"] == "user"]
    return Played(
        rollout.input["task"], (*seen, about["final_observation"]), (about["value"],), about["success"],
        StopReason(about["stop_reason"]),
    )  # fmt: skip


def play(world: World, scripts: Sequence[Script]) -> list[Played]:
    """Play the scripts; those that are given up end at a limit of one turn."""
    return play_rows(
        rows_of(world, scripts), scripts, lambda rows, limit: map(read, run(rows, reply_of(scripts), 1, limit))
    )


TIMED = {"through Agent Lightning's server, controller and a local model server, all of them in it": play}
