"""Print what became of each mutant of the sample, and of the code as it is under the same tests."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from torture.mutation.sample import SAMPLE
from torture.mutation.trial import run_all


def main() -> None:
    """A process of its own: it forks before torch has differentiated anything."""
    trials = [slip.trial() for slip in SAMPLE]
    unchanged = [replace(trial, source="") for trial in trials[-2:]]
    with tempfile.TemporaryDirectory() as folder:
        done = [(trial, verdict) for trial, verdict in run_all([*trials, *unchanged], Path(folder), 2)]
    print(json.dumps([{"mutated": bool(trial.source), "outcome": verdict.outcome} for trial, verdict in done]))


if __name__ == "__main__":
    main()
