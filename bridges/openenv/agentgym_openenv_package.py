"""Writes a package of OpenEnv that serves a world: `agentgym-openenv init ENV FOLDER`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from agentgym_py.env import TextEnv
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError
from agentgym_py.rng import seed_of
from agentgym_py.serving.tool_episode import EpisodeSettings

ORACLE = "oracle.json"
_APP = '''"""Serve the world: uvicorn server.app:app --port 8000."""

import os

import uvicorn
from agentgym_openenv import make_app

from agentgym_py.serving.tool_episode import EpisodeSettings

app = make_app(EpisodeSettings.of_world({env!r}, {kwargs!r}, split={split!r}, seed={seed!r}))


def main() -> None:
    """Serve on this machine only; a container needs HOST=0.0.0.0."""
    uvicorn.run(app, host=os.environ.get("HOST", "127.0.0.1"), port=8000)


if __name__ == "__main__":
    main()
'''
_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["agentgym-py", "agentgym-openenv", "openenv>=0.10,<0.11"]

[project.scripts]
server = "server.app:main"

[tool.setuptools]
packages = ["server"]
"""


def write_package(settings: EpisodeSettings, folder: Path) -> None:
    """Write the package; its oracle is the state before the expert's last action in the first training task.

    Raises:
        ConfigError: the folder exists, its name is no Python identifier, or the world has no expert.
    """
    name = folder.name
    if not name.isidentifier():
        raise ConfigError(f"the folder's name must be a Python identifier such as my_world, got {name!r}")
    if folder.exists():
        raise ConfigError(f"{folder} exists: choose another name, or remove it")
    spec = settings.spec.local_spec
    with closing(settings.spec.make()) as env:
        oracle, version, most = _oracle(env, settings), env.version, env.max_return
    app = _APP.format(env=short_name(spec.name), kwargs=dict(spec.kwargs), split=settings.split, seed=settings.seed)
    files = {
        "openenv.yaml": yaml.safe_dump(_manifest(name, version, 1.0 if most is None else most), sort_keys=False),
        "pyproject.toml": _PROJECT.format(name=name),
        "server/__init__.py": "",
        "server/app.py": app,
        ORACLE: json.dumps(oracle, indent=1) + "\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def _manifest(name: str, version: int, most: float) -> dict[str, Any]:
    return {
        "spec_version": 1, "name": name, "version": f"{version}.0.0", "type": "space", "runtime": "fastapi",
        "app": "server.app:app", "port": 8000,
        "validation": {
            "reward": {"range": [0.0, most], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {"cpu": 1.0, "memory_mb": 1024, "disk_mb": 512, "episode_timeout_s": 60.0},
            "network": {"mode": "no-network"},
            "capabilities": {
                "oracle": {"form": "injected_state", "location": ORACLE}, "verifier": {"kind": "reward_channel"},
                "set_state": True, "task_api": True,
            },
            "types": {"tags": ["text-world"]},
        },
    }  # fmt: skip


def _oracle(env: TextEnv, settings: EpisodeSettings) -> dict[str, Any]:
    """Play the first task by the expert; return the state before its last action, the action and the reward."""
    task = env.task(0, "train").id
    env.reset(seed=seed_of(settings.seed, "world", task), options={"task": task})
    reward, snapshot, action = 0.0, b"", ""
    while plan := env.expert():
        snapshot, action = env.snapshot(), plan[0]
        _, reward, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    state = snapshot.decode("utf-8", "surrogatepass")
    return {"injected_state": state, "action": {"message": action}, "reward": reward}
