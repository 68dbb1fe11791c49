"""An advantage estimator of your own, for `agentgym credit --estimators examples/my_credit.py:hindsight`.

It credits a step with the return to go, less the mean of the others' returns to go from the states that showed the
same observation. Without such a state, the mean over the turn is subtracted.
"""

from __future__ import annotations

from agentgym_py.credit.estimators import CreditSample, return_to_go


def hindsight(sample: CreditSample) -> float:
    """Return the advantage of a step."""
    seen = sample.episode.steps[sample.step].observation
    others = [episode for number, episode in enumerate(sample.group) if number != sample.own]
    same_state = [
        return_to_go(episode, number)
        for episode in others
        for number, step in enumerate(episode.steps)
        if step.observation == seen
    ]
    same_turn = [return_to_go(episode, sample.step) for episode in others]
    baseline = same_state or same_turn
    return return_to_go(sample.episode, sample.step) - sum(baseline) / len(baseline)
