"""Any world of agentgym-py in verifiers v1 by tool calls, for every harness that speaks MCP.

    vf-eval agentgym-verifiers-tools --env.taskset.env shop --env.agent.harness.id null \
        --env.agent.runtime.type subprocess -n 100 -m MODEL --client.base-url URL --no-push

Each rollout has a tool server of its own. Its tools are those of the world at the start of the task. The rollout stops
when the world ends the episode. Rewards and failures are those of `agentgym_verifiers`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import anyio.to_thread
import verifiers.v1 as vf
from agentgym_verifiers import AgentGymConfig, AgentGymData, load_data, settings_of
from pydantic import Field

from agentgym_py.errors import InfrastructureError
from agentgym_py.serving.tool_episode import ToolEpisode
from agentgym_py.serving.tool_parameters import FAILED, tool_parameters

__all__ = ["AgentGymToolTask", "AgentGymToolTaskset", "AgentGymTools", "EpisodeState"]


class EpisodeState(vf.State):
    """The episode of a rollout, which its tool server updates after each call."""

    reward: float = 0.0
    success: bool = False
    steps: int = 0
    stop_reason: str = ""
    observation: str = ""
    """The last observation, which the model does not see if it ends the episode."""
    error: str = ""
    process: int = 0
    """The tool server's process, which runs on the machine of the rollout; 0 until the episode has started."""


class AgentGymTools(vf.Toolset[vf.ToolsetConfig, EpisodeState]):
    """The tools of a world, for one rollout."""

    TOOL_PREFIX = None

    async def setup_task(self, task: AgentGymData) -> None:
        """Start the episode."""
        self._episode = await anyio.to_thread.run_sync(ToolEpisode, settings_of(task), task.id)
        self.state.process = os.getpid()
        await self._push_state(b"")

    def register(self, mcp: Any) -> None:
        """Offer the tools of the task."""
        for tool in self._episode.tools:
            function = tool["function"]
            mcp.add_tool(self._with_state(self._tool(function)), function["name"], description=function["description"])

    def _tool(self, function: Mapping[str, Any]) -> Callable[..., Any]:
        """Make the function of a tool, whose signature gives its schema back to MCP."""
        schema = function["parameters"]
        required = schema.get("required", ())

        async def call(**arguments: Any) -> str:
            filled = {key: value for key, value in arguments.items() if value is not None or key in required}
            return await anyio.to_thread.run_sync(self._call, self.state, function["name"], filled)

        about = {key: value.get("description") for key, value in schema["properties"].items()}
        parameters = [
            parameter.replace(annotation=Annotated[parameter.annotation, Field(description=about[parameter.name])])
            for parameter in tool_parameters(function["name"], schema)
        ]
        call.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
        call.__name__ = function["name"]
        return call

    def _call(self, state: EpisodeState, tool: str, arguments: Mapping[str, Any]) -> str:
        if state.error:
            return FAILED
        try:
            turn = self._episode.call(tool, arguments)
        except InfrastructureError as error:  # raised, it would be a text for the model, and leave the state as it was
            state.error = str(error)
            return FAILED
        state.reward = sum(step.reward for step in self._episode.steps)
        state.success, state.steps = bool(self._episode.env.succeeded), len(self._episode.steps)
        state.stop_reason, state.observation = str(turn.stop_reason or ""), turn.observation
        return turn.observation


class AgentGymToolTask(vf.Task[AgentGymData, EpisodeState, vf.TaskConfig]):
    """A task whose tools play it."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        """Serve the world's tools, one server per rollout."""
        del config
        return [AgentGymTools(vf.ToolsetConfig())]

    @vf.stop
    async def has_ended(self, trace: vf.Trace) -> bool:
        """Stop when the episode is over.

        A tool server that has died is an infrastructure failure: most harnesses tell the model of a failed call, after
        which it gives up.
        """
        state = trace.state
        if not state.stop_reason and not _runs(state.process):
            state.error = state.error or "the tool server has died"
        return bool(state.stop_reason or state.error)

    @vf.reward
    async def outcome(self, trace: vf.Trace) -> dict[str, float]:
        """Record the return; after an infrastructure failure there is none.

        Raises:
            InfrastructureError: the world failed, so verifiers counts the rollout as an error.
        """
        if trace.state.error:
            raise InfrastructureError(trace.state.error)
        trace.info["stop_reason"] = trace.state.stop_reason or "gave_up"
        trace.info["final_observation"] = trace.state.observation
        return {"return": trace.state.reward}

    @vf.metric
    async def success(self, trace: vf.Trace) -> float:
        """Return 1 for success, else 0."""
        return float(trace.state.success)

    @vf.metric
    async def steps(self, trace: vf.Trace) -> float:
        """Return the number of steps."""
        return float(trace.state.steps)


def _runs(process: int) -> bool:
    """Return whether a process exists; verifiers removes those of tool servers when they end."""
    try:
        os.kill(process, 0)
    except PermissionError:  # it is another user's
        return True
    except ProcessLookupError:
        return False
    return True


class AgentGymToolTaskset(vf.Taskset[AgentGymToolTask, AgentGymConfig]):
    """The tasks of a split, in the order of their numbers."""

    INFINITE = True

    def load(self) -> Any:
        """Yield the tasks; errors as `AgentGymTaskset`."""
        return (AgentGymToolTask(data, self.config.task) for data in load_data(self.config, calls=True))


if __name__ == "__main__":
    AgentGymTools.run()
