from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_py.evolution.stopwatch import ELAPSED, Stopwatch


def test_the_time_of_all_sittings_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted sitting counts to its end, a killed one to its last save; the file goes when the work is over."""
    now = 100.0
    monkeypatch.setattr("agentgym_py.evolution.stopwatch.time.monotonic", lambda: now)
    with pytest.raises(KeyboardInterrupt), Stopwatch(tmp_path):
        now += 10
        raise KeyboardInterrupt
    killed = Stopwatch(tmp_path)
    now += 5
    killed.save()
    now += 50  # lost, because the process is killed here
    with Stopwatch(tmp_path) as last:
        now += 1
        assert last.stop() == 16
    assert not (tmp_path / ELAPSED).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"seconds": null}', '{"seconds": -1}', "{"])
def test_a_broken_file_does_not_stop_a_run(tmp_path: Path, content: str) -> None:
    """No result depends on the time, so counting starts at 0."""
    (tmp_path / ELAPSED).write_text(content)
    assert 0 <= Stopwatch(tmp_path).seconds < 60
