"""Format estimates and notes on them."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentgym_py.errors import setting
from agentgym_py.evaluation.evaluate import cut_share, repetitive_share
from agentgym_py.evaluation.stats import MIN_BOOTSTRAP, Estimate
from agentgym_py.trajectory import Trajectory

_MANY_CUT = 0.2
"""Share of replies that were cut above which a warning is due."""
_MANY_INVALID = 0.5
"""Share of invalid actions above which a hint is due."""
_LONGEST_SETTING = 60
"""Characters of a setting, such as a system prompt, that a table shows."""


def format_interval(rate: Estimate) -> str:
    """Return `41.3 % [36, 47]`, `41.3 % (n too small)` without an interval, or a dash without data."""
    if not rate.n:
        return "–"
    if math.isnan(rate.low):
        return f"{100 * rate.value:.1f} % ({_no_interval(rate)})"
    return f"{100 * rate.value:.1f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def p_value(p: float) -> str:
    """Return `0.0312`, or `< 0.0001`."""
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def format_rate(rate: Estimate) -> str:
    """Return `41.3 % [36, 47]`, with the note of a small sample: `(only 4 tasks)`."""
    return format_interval(rate) + (f" ({small_sample_note(rate)})" if rate.small else "")


def format_mean(mean: Estimate) -> str:
    """Return `0.612 [0.54, 0.67]`, or the reason why there is no interval."""
    if not mean.n:
        return "–"
    if math.isnan(mean.low):
        return f"{mean.value:.3f} ({_no_interval(mean)})"
    return f"{mean.value:.3f} [{mean.low:.2f}, {mean.high:.2f}]"


def _no_interval(estimate: Estimate) -> str:
    return "n too small" if estimate.n < MIN_BOOTSTRAP else "all equal"


def format_cost(mean: Estimate) -> str:
    """Return `0.012 [0.004, 0.021]`: a mean with three digits in its interval, because costs are small."""
    interval = "" if math.isnan(mean.low) else f" [{mean.low:.3f}, {mean.high:.3f}]"
    return f"{mean.value:.3f}{interval}" if mean.n else "–"


def format_noted_mean(mean: Estimate) -> str:
    """Return `0.612 [0.54, 0.67] (only 13 tasks)`; too few tasks for an interval have none, whatever their formula."""
    note = small_sample_note(mean)
    if mean.n < MIN_BOOTSTRAP:
        return f"{mean.value:.3f} ({note})" if mean.n else "–"
    return f"{format_mean(mean)} ({note})" if note else format_mean(mean)


def small_sample_note(estimate: Estimate) -> str:
    """Return `only 4 tasks`, or nothing if there are enough."""
    if not estimate.n:
        return "no task"
    return f"only {estimate.n} task{'' if estimate.n == 1 else 's'}" if estimate.small else ""


def given_up_note(number: int) -> str:
    """Return how many episodes the agent gave up, with the reasons (`StopReason.GAVE_UP`); or nothing."""
    episodes = f"{number} episode{'' if number == 1 else 's'}"
    return f"{episodes} given up by the agent (its context was full, or it had no action left)" if number else ""


def invalid_note(trajectories: Iterable[Trajectory]) -> str:
    """Return what to try if most of a model's actions were invalid and its prompt does not explain their form.

    Replies that the provider refused do not count, because they have no form.
    """
    evidence = [t for t in trajectories if t.is_evidence and t.provenance.prompt != "full"]
    invalid = [not step.valid for t in evidence for step in t.steps if not (step.usage and step.usage.refused)]
    if not sum(invalid) > _MANY_INVALID * len(invalid):
        return ""
    return f"most actions were invalid: {setting('prompt', 'full')} explains the form of an answer to the model"


def refused_note(replies: int) -> str:
    """Return how many replies an endpoint's provider refused, or nothing."""
    which = f"{replies:,} repl{'y' if replies == 1 else 'ies'}"
    return f"{which} refused by the provider (content filter or refusal): empty, and counted" if replies else ""


def extra_calls_note(calls: int) -> str:
    """Return how many tool calls were not done because they were not the first of their reply, or nothing."""
    which = f"{calls:,} tool call{'s' * (calls > 1)}"
    return f"{which} not done, because only the first of a reply counts" if calls else ""


def cut_note(share: float | None) -> str:
    """Return `12 % of replies cut`, or nothing."""
    return f"{_percent(share)} of replies cut" if share else ""


def cut_warning(trajectories: Sequence[Trajectory]) -> str:
    """Say what to set if many of a model's replies were cut at the maximum length; nothing otherwise."""
    evidence = [t for t in trajectories if t.is_evidence]
    share = cut_share(evidence)
    if share is None or share <= _MANY_CUT:
        return ""
    limits = [t.provenance.sampling.get("max_new_tokens") for t in trajectories]
    limit = max((limit for limit in limits if isinstance(limit, int)), default=0)
    return cut_remark(share, repetitive_share(evidence), limit)


def cut_remark(share: float, repetitive: float | None, limit: int, replies: str = "the replies") -> str:
    """Say that a share of replies was cut at `limit` tokens (0 if unknown), and what to set; nothing for a share of 0.

    If most of them repeat one phrase to the end, by the share `repetitive` (None if unknown), nothing is to be set.
    `replies` names them.
    """
    if not share:
        return ""
    place, advice = (f" at max_new_tokens {limit}", 2 * limit) if limit else ("", "N")
    cut = f"{_percent(share)} of {replies} were cut{place}"
    repeating = f"{_percent(repetitive)} of them repeat one phrase to the end" if repetitive else ""
    if repetitive and repetitive > 0.5:
        return f"{cut}. {repeating}: the agent has learned too little, and a larger limit does not help"
    larger = f"{cut}: set a larger one, as {setting('max_new_tokens', advice)}"
    return f"{larger}; {repeating}" if repeating else larger


def context_note(episodes: int, outgrown: int, turns_dropped: int, summary_tokens: int = 0) -> str:
    """Return `12 of 50 episodes outgrew the context; 31 turns dropped`, or nothing."""
    if not outgrown:
        return ""
    note = f"{outgrown} of {episodes} episode{'s' * (episodes > 1)} outgrew the context; "
    note += f"{turns_dropped} turn{'s' * (turns_dropped != 1)} dropped"
    return note + (f", summaries of {summary_tokens:,} tokens in their place" if summary_tokens else "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


def failure_note(trajectories: Iterable[Trajectory]) -> str:
    """Return how many episodes infrastructure failures ended, with the most frequent reason; or nothing."""
    total, reason, number = _most_frequent_error(trajectories)
    episodes = f"{total} episode{'s' * (total > 1)}"
    return f"{episodes} ended by an infrastructure failure and left out; {number} of them: {reason}" if total else ""


def all_failed_note(trajectories: Sequence[Trajectory]) -> str:
    """Return why all episodes ended by an error, by the most frequent one; nothing if one of them did not."""
    total, reason, number = _most_frequent_error(trajectories)
    if not total or total < len(trajectories):
        return ""
    which = "this error" if number == total else f"an error, {number} of them by this one"
    return f"all {total} episodes ended by {which}: {reason}"


def _most_frequent_error(trajectories: Iterable[Trajectory]) -> tuple[int, str, int]:
    """Return how many episodes an error ended, the most frequent one, and how many ended by that."""
    reasons = Counter(t.error or "no reason given" for t in trajectories if not t.is_evidence)
    ((reason, number),) = reasons.most_common(1) or [("", 0)]
    return reasons.total(), reason, number


def decoding_label(sampling: Mapping[str, Any]) -> str:
    """Return a model's decoding, as `, greedy, replies of at most 64 tokens`; nothing for other agents."""
    temperature = sampling.get("temperature")
    if temperature is None:
        return ""
    decoding = f", sampled at temperature {temperature:g}" if temperature else ", greedy"
    longest = sampling.get("max_new_tokens")
    return f"{decoding}, replies of at most {longest} tokens" if longest else decoding


def prompt_settings(sampling: Mapping[str, Any], template: object = None) -> dict[str, Any]:
    """Return the settings, beside the default ones, of what an agent's model is sent and how its replies are sampled.

    `template` is its prompt template.
    """
    defaults = {"top_p": 1.0, "top_k": 0, "context": "error"}
    names = ("tools", "system_prompt", "few_shot", "extra", "context", "top_p", "top_k")
    values = {name: sampling.get(name) for name in names} | {"prompt_template": template}
    return {name: value for name, value in values.items() if value and value != defaults.get(name)}


def format_setting(name: str, value: object) -> str:
    """Return one of `prompt_settings` for a table: `tools`, `system prompt "Be brief."`, `few-shot (2 replies)`."""
    if name == "tools" and value is True:
        return name
    if name == "few_shot" and isinstance(value, Sequence) and not isinstance(value, str):
        replies = sum(isinstance(turn, Mapping) and turn.get("role") == "assistant" for turn in value)
        return f"few-shot ({replies} repl{'y' if replies == 1 else 'ies'})"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    short, count = text, ""
    if len(text) > _LONGEST_SETTING:
        short, count = f"{text[:_LONGEST_SETTING]}…", f" ({len(text)} characters)"
    if isinstance(value, str):
        short = json.dumps(short, ensure_ascii=False)
    return f"{name.replace('_', ' ')} {short}{count}"


def format_settings_apart(name: str, values: Sequence[object]) -> list[str]:
    """Return a setting of several agents for a table, by `format_setting`; empty where it is None.

    Different values whose texts would be equal have a digest.
    """
    texts = ["" if value is None else format_setting(name, value) for value in values]
    digests = [_digest(value) for value in values]
    alike = {text for text in texts if len({digests[k] for k, other in enumerate(texts) if other == text}) > 1}
    return [f"{text} (digest {digest})" if text in alike else text for text, digest in zip(texts, digests, strict=True)]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def env_summaries(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each environment's part of a summary if there are several; runs of older versions did not note it."""
    summaries: Mapping[str, Any] = summary.get("worlds", {})
    return summaries if len(summaries) > 1 else {}
