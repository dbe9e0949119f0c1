"""A training step stays short to read."""

from benchmarks.step_path import build_step, follow


def test_a_step_makes_few_calls_and_rarely_leaves_a_file() -> None:
    calls, changes = follow(build_step())
    assert len(calls) <= 115
    assert changes <= 76


def test_every_call_has_its_file_and_depth() -> None:
    calls, _ = follow(build_step())
    assert calls[0] == (0, "reweighting/adiw.py", "ADIW.forward")
    assert ("divergences/kl.py", "KLProblem.project") in {call[1:] for call in calls}
