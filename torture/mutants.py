"""Mutation testing: change the core in small ways, one at a time, and see whether a test fails.

``python -m torture.mutants`` tries every mutant of every core module and writes results/torture/mutants.json;
``--module`` selects modules, ``--again`` only the last survivors (after tests were added). survivors.toml has the
reasons why a survivor is accepted. A reason without its mutant is reported: the code changed, so the reason must too.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torture.commit import commit
from torture.mutation.core import CORE, tests_of
from torture.mutation.trial import ROOT, Trial, Verdict, run_all

RECORD = ROOT / "results" / "torture" / "mutants.json"
REASONS = Path(__file__).with_name("survivors.toml")
ABOUT = "small changes to the core, one at a time: a test notices, or there is a reason why none can"
GOAL = 90.0  # percent
Key = tuple[str, str, int]  # function, kind of change, number of it within the function
FIELDS = ("function", "change", "number")


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants and write the record; 1 when the score is below the goal or a reason is missing or outdated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--module", action="append", choices=list(CORE), help="only this module (may be repeated)")
    parser.add_argument("--again", action="store_true", help="only the last survivors")
    parser.add_argument("--function", help="the last survivors, and the mutants of this function")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"modules": {}}
    for module in options.module or CORE:
        last = record["modules"].get(module) if options.again or options.function else None
        record["modules"][module] = _try_module(module, last, options.function, options.jobs)
        _write(record)
    print(f"score {record['score']}%, {record['survived']} survivors", *record["wrong"], sep="\n  ")
    return int(bool(record["wrong"]))


def _try_module(module: str, last: dict[str, Any] | None, function: str | None, jobs: int) -> dict[str, Any]:
    """Try the mutants of a module; given its last record, only its survivors and the mutants of one function."""
    from torture.mutation.candidates import mutants  # mutmut is in an extra that reading the record does not need

    found = mutants((ROOT / "src" / module).read_text())
    known = {tuple(survivor[name] for name in FIELDS) for survivor in last["survivors"]} if last else None
    tried = {one.source: one for one in found if known is None or one.function == function or one.key in known}
    verdicts: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as folder:
        ((_, plain),) = run_all([Trial(module, "", tests_of(module))], Path(folder) / "plain", 1)
        if plain.outcome != "survived":
            raise SystemExit(f"the tests of {module} fail without a mutant:\n{plain.output}")
        limit = int(5 * plain.seconds + 30)
        trials = [Trial(module, source, tests_of(module), limit) for source in tried]
        for trial, verdict in run_all(trials, Path(folder), jobs):
            verdicts[trial.source] = verdict
            if verdict.outcome == "survived":
                one = tried[trial.source]
                print("survived:", *one.key, f": {one.was} -> {one.now}", file=sys.stderr, flush=True)
            _progress(module, len(tried), verdicts)
    survivors = [one.key for one in tried.values() if verdicts[one.source].outcome == "survived"]
    reasons = read_reasons(module)
    late = sum(verdict.outcome == "timeout" for verdict in verdicts.values())
    return {
        "mutants": len(found),
        "killed": len(found) - len(survivors),
        "timeouts": late if last is None else last["timeouts"],
        "survived": len(survivors),
        "score": _percent(len(found) - len(survivors), len(found)),
        "commit": commit(),
        "tests": CORE[module],
        "survivors": [dict(zip(FIELDS, key, strict=True), why=reasons.get(key, "")) for key in survivors],
        "outdated": outdated(reasons, {one.key for one in found}, survivors),
    }


def read_reasons(module: str, file: Path = REASONS) -> dict[Key, str]:
    """Why no test can, or has to, detect each accepted mutant of a module."""
    entries = [one for one in tomllib.loads(file.read_text())["survivor"] if one["module"] == module]
    return {
        (entry["function"], change, number): entry["why"]
        for entry in entries
        for change, numbers in entry["changes"].items()
        for number in numbers
    }


def outdated(reasons: dict[Key, str], existing: set[Key], survivors: list[Key]) -> list[str]:
    """The reasons that have no mutant any more, and those whose mutant a test now detects.

    >>> outdated({("f", "> to >=", 1): "why", ("g", "0 to 1", 2): "why"}, {("f", "> to >=", 1)}, [])
    ['f: > to >= (1) is detected', 'g: 0 to 1 (2) does not exist']
    """
    lines = []
    for key in reasons.keys() - set(survivors):
        function, change, number = key
        lines.append(f"{function}: {change} ({number}) {'is detected' if key in existing else 'does not exist'}")
    return sorted(lines)


def problems(record: dict[str, Any]) -> list[str]:
    """What the run found wrong: a low score, survivors without a reason, outdated reasons."""
    lines = [f"the score is {record['score']}%, the goal {GOAL}%"] if record["score"] < GOAL else []
    for module, kept in record["modules"].items():
        unexplained = [one for one in kept["survivors"] if not one["why"]]
        lines += [f"{module}, {o['function']}: {o['change']} ({o['number']}) has no reason" for o in unexplained]
        lines += [f"{module}, {line}: delete it from {REASONS.name}" for line in kept.get("outdated", ())]
    return lines


def _write(record: dict[str, Any]) -> None:
    record["modules"] = {name: record["modules"][name] for name in CORE if name in record["modules"]}
    modules = record["modules"].values()
    total, killed = (sum(module[name] for module in modules) for name in ("mutants", "killed"))
    score = _percent(killed, total)
    record |= {"check": "mutants", "about": ABOUT, "commit": commit(), "goal": GOAL}
    record |= {"counts": {"mutants": total, "killed": killed, "survived": total - killed, "% killed": score}}
    record |= {"tool": "mutmut", "version": version("mutmut"), "python": platform.python_version()}
    record |= {"torch": version("torch"), "mutants": total, "killed": killed, "survived": total - killed}
    record["score"] = score
    record["wrong"] = problems(record)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(whole, 1), 2)


def _progress(module: str, total: int, verdicts: dict[str, Verdict]) -> None:
    if len(verdicts) % 10 == 0 or len(verdicts) == total:
        survived = sum(verdict.outcome == "survived" for verdict in verdicts.values())
        print(f"{module}: {len(verdicts)} of {total} tried, {survived} survived", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
