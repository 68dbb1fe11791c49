"""A harness that runs in this process, and tells the model of a failed call as many agents do."""

from __future__ import annotations

import json
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI, OpenAIError
from verifiers.v1.harnesses.utils.mcp import mcp_client, mcp_content_to_chat_content

__all__ = ["PatientHarness", "PatientHarnessConfig"]


class PatientHarnessConfig(vf.HarnessConfig):
    """Settings of the harness."""


class PatientHarness(vf.Harness[PatientHarnessConfig]):
    """Calls the tools of one server until the model replies without a call."""

    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: vf.Trace, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:  # fmt: skip
        """Play the task."""
        (url,) = mcp_urls.values()
        messages: list[Any] = [{"role": "user", "content": data.prompt}]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as model:
            while True:
                try:
                    completion = await model.chat.completions.create(model=ctx.model, messages=messages)
                except OpenAIError as error:  # verifiers has stopped the rollout
                    return vf.ProgramResult(1, "", str(error))
                message = completion.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return vf.ProgramResult(0, "", "")
                for call in message.tool_calls:
                    text = await self._call(url, call.function)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    async def _call(self, url: str, function: Any) -> Any:
        try:
            async with mcp_client({"url": url}) as client:
                result = await client.call_tool(function.name, json.loads(function.arguments))
        except Exception as error:
            return f"The tool failed: {error}"
        return mcp_content_to_chat_content(result.content)
