"""Reward functions: what a trainer learns from in place of the world's own reward.

A reward function takes a trajectory. It returns a number for the whole episode, a list with one number per step, or
such values by name, whose sum is the reward. One with a parameter `completions` is called as trl calls its reward
functions: with the conversations of several episodes and columns about them; it returns one number per episode. One
whose first parameter is `trajectories` gets several episodes, with all attempts at a task among them, and returns a
number or a `Score` per episode.

`build_reward("agent + 0.1*my.py:score")` makes the scorer of a weighted sum. If a function fails, or returns something
else, the episode counts as ended by an infrastructure error, and trainers leave it out.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agentgym_py import registry
from agentgym_py.checks import parameters_of, require_arguments
from agentgym_py.collection.env_turn import finite
from agentgym_py.errors import ConfigError, EndpointError, did_you_mean
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.formats.trl import conversation
from agentgym_py.trajectory.scores import Score, Scorer, paid_at_end

REWARD_MODEL = "reward_model"
"""Name of the scores of the reward model that a run has."""
_PATH = re.compile(r"[\\/].*?\.py:")
Reward = float | Sequence[float]
"""A number for the whole episode, paid after its last step, or a list with one number per step."""


class RewardFunction(Protocol):
    """A function, or an object of a class, of the group `agentgym.rewards`; settings are further keyword arguments."""

    def __call__(self, trajectory: Trajectory, /) -> Reward | Mapping[str, Reward]:
        """Return the reward of an episode, or its parts by name."""
        ...


class Term(NamedTuple):
    """One term of a weighted sum."""

    name: str
    weight: float = 1.0


def parse_reward(text: str) -> list[Term]:
    """Parse a weighted sum of reward functions, such as `agent + 0.1*my.py:score`.

    Raises:
        ConfigError: a weight is not a number, or a name is missing or repeated.
    """
    terms = list[Term]()
    for part in _split(text):
        factor, star, name = (piece.strip() for piece in _partition_weight(part))
        try:
            weight = float(factor) if star else 1.0
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight) or not name:
            advice = "; subtract a term as + -WEIGHT*NAME" if "-" in part else ""
            raise ConfigError(f"reward {text!r}: {part.strip()!r} is not NAME or WEIGHT*NAME{advice}")
        if name in [term.name for term in terms]:
            raise ConfigError(f"reward {text!r}: {name} is there twice; give it one weight")
        terms.append(Term(name, weight))
    return terms


def _split(text: str) -> list[str]:
    """Split a weighted sum at its plus signs, but not within the path of a source file or behind an `e`."""
    ends = [match.start() for match in re.finditer(r"(?<![\d.]e)\+", _hide_paths(text))]
    return [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True)]


def _partition_weight(term: str) -> tuple[str, str, str]:
    """Split a term into its weight, the star and its name; a star within a path does not count."""
    star = _hide_paths(term).rfind("*")
    return (term[:star], "*", term[star + 1 :]) if star >= 0 else ("", "", term)


def _hide_paths(text: str) -> str:
    """Return a text of the same length without the signs in the paths of source files."""
    return _PATH.sub(lambda path: "_" * len(path[0]), text)


def format_reward(terms: Sequence[Term]) -> str:
    """Return the text that `parse_reward` reads."""
    return " + ".join(term.name if term.weight == 1 else f"{term.weight!r}*{term.name}" for term in terms)


def absolute_reward(text: str) -> str:
    """Return a weighted sum whose source files have absolute paths, so that it is valid in other folders too."""
    return format_reward([term._replace(name=registry.absolute_source(term.name)) for term in parse_reward(text)])


def short_reward(text: str | None) -> str:
    """Return a weighted sum without the folders of its source files; empty for None."""
    return format_reward([term._replace(name=_label(term.name)) for term in parse_reward(text)]) if text else ""


def reward_sources(text: str | None, settings: Mapping[str, Any] | None = None) -> list[str]:
    """Return the sources of Python that a weighted sum and its settings name."""
    names = [term.name for term in parse_reward(text)] if text else []
    sources = [name for name in names if registry.is_source(name)]
    return sources + [value for value in (settings or {}).values() if _is_source_setting(value)]


def is_relative(text: str) -> bool:
    """Return whether a weighted sum has the scores of a relative judge, which need several attempts at a task."""
    from agentgym_py.rewards.relative_judge import RelativeJudge

    return any(inspect.isclass(target) and issubclass(target, RelativeJudge) for target in _targets(text))


def reads_several(text: str) -> bool:
    """Return whether a weighted sum has a function of several episodes, which gets all attempts at a task."""
    return any(_is_trl_shaped(names) or _is_batched(names) for names in map(_call_parameters, _targets(text)))


def potential_gamma(text: str, settings: Mapping[str, Any]) -> float | None:
    """Return the discount of the potential in a weighted sum; None without one."""
    from agentgym_py.rewards.potential import Potential

    for target in _targets(text):
        if inspect.isclass(target) and issubclass(target, Potential):
            return target(**{key: value for key, value in settings.items() if key in _settings_of(target)}).gamma
    return None


def _targets(text: str) -> list[Any]:
    return [registry.load("agentgym.rewards", term.name) for term in parse_reward(text) if term.name != REWARD_MODEL]


def _call_parameters(target: Any) -> list[str]:
    """Return the names of the parameters of a reward function, or of `__call__` of a class."""
    is_class = inspect.isclass(target)
    return list(inspect.signature(target.__call__ if is_class else target).parameters)[is_class:]


def _is_trl_shaped(names: Sequence[str]) -> bool:
    return "completions" in names


def _is_batched(names: Sequence[str]) -> bool:
    return names[:1] == ["trajectories"]


def absolute_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of reward functions, in which source files have absolute paths."""
    return {
        key: registry.absolute_source(value) if _is_source_setting(value) else value for key, value in settings.items()
    }


def _is_source_setting(value: object) -> bool:
    """Return whether a setting names Python, as the name `llama3:latest` of a model does not."""
    if not isinstance(value, str) or not registry.is_source(value):
        return False
    place = value.partition(":")[0]
    package = place.partition(".")[0]
    return place.endswith(".py") or (package.isidentifier() and find_spec(package) is not None)


def build_reward(
    text: str | None, settings: Mapping[str, Any] | None = None, reward_model: Scorer | None = None
) -> Scorer | None:
    """Build the scorer of a weighted sum; None if it is the world's own reward.

    Args:
        text: As for `parse_reward`; by default `return`, or `reward_model` if there is one.
        settings: Settings of the functions by name; a function gets those that it has.
        reward_model: The scorer `reward_model`.

    Raises:
        ConfigError: the text or a setting is wrong, or only one of the name `reward_model` and the model is there.
        UnknownNameError: there is no such reward function, or it does not load.
    """
    settings = settings or {}
    terms = parse_reward(text or (REWARD_MODEL if reward_model else "return"))
    names = [term.name for term in terms]
    _require_different_labels(text, names)
    if reward_model and REWARD_MODEL not in names:
        raise ConfigError(f"reward_model needs a reward with the name {REWARD_MODEL} (it is {text!r})")
    if REWARD_MODEL in names and not reward_model:
        raise ConfigError(f"reward {text!r} needs the folder of a reward model: set reward_model")
    targets = {name: registry.load("agentgym.rewards", name) for name in names if name != REWARD_MODEL}
    _require_known(settings, targets)
    if terms == [Term("return")]:
        return None
    scorers = {name: _scorer(name, target, settings) for name, target in targets.items()}
    if reward_model:
        scorers[REWARD_MODEL] = reward_model
    return WeightedSum([(_label(term.name), term.weight, scorers[term.name]) for term in terms])


def function_scorer(function: Any, settings: Mapping[str, Any] | None = None) -> Scorer:
    """Make the scorer of a reward function that a program has; errors as `build_reward`."""
    named = function.func if isinstance(function, partial) else function
    name = getattr(named, "__name__", type(named).__name__)
    is_plain = inspect.isroutine(function) or isinstance(function, partial)
    target = function if is_plain else function.__call__  # an object may have no hash
    _require_known(settings or {}, {name: target})
    return WeightedSum([(name, 1.0, _scorer(name, target, settings or {}))])


class WeightedSum:
    """A weighted sum of scorers; it warns once of each that fails."""

    def __init__(self, terms: Sequence[tuple[str, float, Scorer]]) -> None:
        self._terms = terms
        self._warned = set[str]()

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        """Score episodes; an episode that a term has no score for has an error."""
        columns = [(name, weight, self._call(name, scorer, trajectories)) for name, weight, scorer in self._terms]
        return [_add([(name, weight, scores[i]) for name, weight, scores in columns]) for i in range(len(trajectories))]

    def _call(self, name: str, scorer: Scorer, trajectories: Sequence[Trajectory]) -> list[Score]:
        pairs = zip(trajectories, scorer(trajectories), strict=True)
        scores = [s if isinstance(s, Score) else Score({"": paid_at_end(s, len(t.steps))}) for t, s in pairs]
        errors = [f"{t.id}: {s.error}" for t, s in zip(trajectories, scores, strict=True) if s.error]
        if errors and name not in self._warned:
            self._warned.add(name)
            warnings.warn(
                f"the reward {name} failed for {len(errors)} of {len(scores)} episodes, which are left out as "
                f"infrastructure errors: {errors[0]}",
                stacklevel=2,
            )
        return scores


def _add(terms: Sequence[tuple[str, float, Score]]) -> Score:
    """Add the scores of one episode."""
    parts = dict[str, Sequence[float]]()
    for name, weight, score in terms:
        if score.error:
            return Score(error=f"reward {name}: {score.error}")
        for part, rewards in score.parts.items():
            parts["/".join(filter(None, (name, part)))] = [weight * reward for reward in rewards]
    return Score(parts)


def _require_different_labels(text: str | None, names: Sequence[str]) -> None:
    labels = [_label(name) for name in names]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise ConfigError(
            f"reward {text!r}: two functions are called {twice} in logs, which leave out folders; rename a file"
        )


def _label(name: str) -> str:
    """Return a function's name in logs: without folder, since `/` parts the names there."""
    return Path(name).name if name.partition(":")[0].endswith(".py") else name


# ---- one function ----------------------------------------------------------------------------------------------------


def _settings_of(target: Callable[..., Any]) -> list[str]:
    """Return the names of a reward function's settings."""
    parameters = list(parameters_of(target).values())
    if not inspect.isclass(target):  # its first parameter is the trajectory; trl's shape has required columns
        parameters = [p for p in parameters[1:] if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]


def _require_known(settings: Mapping[str, Any], targets: Mapping[str, Callable[..., Any]]) -> None:
    names = [name for target in targets.values() for name in _settings_of(target)]
    for setting in settings:
        if setting not in names:
            raise ConfigError(
                f"reward_kwargs: {' + '.join(targets)} takes no setting {setting!r}."
                f"{did_you_mean(setting, names, 'It takes')}"
            )


def _scorer(name: str, target: Callable[..., Any], settings: Mapping[str, Any]) -> Scorer:
    """Make the scorer of a reward function with those of the settings that it has."""
    own = {key: value for key, value in settings.items() if key in _settings_of(target)}
    try:
        require_arguments(target, own)
        function: Any = target(**own) if inspect.isclass(target) else partial(target, **own)
    except ConfigError as error:
        raise ConfigError(f"reward {name}: {error}") from error
    names = _call_parameters(function)
    if _is_trl_shaped(names):
        return partial(_score_batch, lambda episodes: function(**_accepted(function, trl_columns(episodes))))
    if _is_batched(names):
        return partial(_score_batch, function)
    return lambda trajectories: [_score_one(function, trajectory) for trajectory in trajectories]


def _score_one(function: RewardFunction, trajectory: Trajectory) -> Score:
    """Call a reward function; whatever it raises, or returns in place of a reward, is the episode's error."""
    try:
        value = function(trajectory)
    except Exception as error:  # a user's function may raise anything
        return Score(error=registry.describe_error(error))
    try:
        parts = value if isinstance(value, Mapping) else {"": value}
        if not parts:
            raise ValueError("the reward has no part")
        return Score({str(name): _per_step(reward, len(trajectory.steps)) for name, reward in parts.items()})
    except Exception as error:  # its values may be anything
        return Score(error=f"{error}: a reward function returns a number, a list with one for each step, or a mapping")


def _per_step(reward: Any, steps: int) -> tuple[float, ...]:
    if not isinstance(reward, list | tuple):
        return paid_at_end(finite(reward, "the reward"), steps)
    if len(reward) != steps:
        raise ValueError(f"the reward has {len(reward)} numbers for {steps} steps")
    return tuple(finite(number, "the reward of a step") for number in reward)


# ---- several episodes, and trl's shape -------------------------------------------------------------------------------


def _score_batch(
    function: Callable[[Sequence[Trajectory]], Iterable[Any]], trajectories: Sequence[Trajectory]
) -> list[Score]:
    """Call a reward function of several episodes; what it raises is the error of all of them.

    Raises:
        EndpointError: the function asks an endpoint that refuses or is broken: the run stops, and can be resumed.
    """
    try:
        rewards = list(function(trajectories))
        if len(rewards) != len(trajectories):
            raise ValueError(f"{len(rewards)} rewards for {len(trajectories)} episodes")
    except EndpointError:
        raise
    except Exception as error:  # as above
        return [Score(error=registry.describe_error(error))] * len(trajectories)
    pairs = zip(trajectories, rewards, strict=True)
    return [
        reward if isinstance(reward, Score) else _score_one(lambda _, reward=reward: reward, trajectory)
        for trajectory, reward in pairs
    ]


def _accepted(function: Callable[..., Any], columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns that a function takes; all of them if it has `**columns`."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return columns if takes_all else {name: column for name, column in columns.items() if name in parameters}


def trl_columns(trajectories: Sequence[Trajectory]) -> dict[str, list[Any]]:
    """Return what trl gives to a reward function of conversations, and columns about the episodes.

    `prompts` holds the rules with the first observation, `completions` all messages after them: the agent's replies
    with the observations between. `completion_ids` are the ids of the replies, where a model wrote them.
    """
    turns = [conversation(trajectory) for trajectory in trajectories]
    return {
        "prompts": [messages[:1] for messages in turns],
        "completions": [messages[1:] for messages in turns],
        "completion_ids": [
            [token for step in t.steps for token in (step.tokens.ids if step.tokens else ())] for t in trajectories
        ],
        "task_id": [t.task_id for t in trajectories],
        "split": [t.split for t in trajectories],
        "kind": [t.kind for t in trajectories],
        "difficulty": [t.difficulty for t in trajectories],
        "instruction": [t.instruction for t in trajectories],
        "success": [t.success for t in trajectories],
        "reward": [t.reward for t in trajectories],
        "optimal_steps": [t.optimal_steps for t in trajectories],
        "trajectories": list(trajectories),
    }
