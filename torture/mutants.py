"""Tests of the tests: change the core in small ways, one at a time, and see whether a test notices.

``python -m torture.mutants`` tries every mutant of every module of the core and writes results/torture/mutants.json;
``--module`` takes some modules, ``--again`` only what survived the last time (after tests were added). The reasons
why a survivor may live are in survivors.toml, beside this.
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
Survivor = dict[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants and write the record; 1 when the score is below the goal or a survivor has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--module", action="append", choices=list(CORE), help="only this one (may be repeated)")
    parser.add_argument("--again", action="store_true", help="only those that survived the last time")
    parser.add_argument("--where", help="only those of this function, beside what survived the last time")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"modules": {}}
    for module in options.module or CORE:
        last = record["modules"].get(module) if options.again or options.where else None
        record["modules"][module] = _try_module(module, last, options.where, options.jobs)
        _write(record)
    unexplained = sum(not survivor["why"] for kept in record["modules"].values() for survivor in kept["survivors"])
    print(f"score {record['score']}%, {record['survived']} survivors, {unexplained} of them without a reason")
    return int(record["score"] < GOAL or unexplained > 0)


def _try_module(module: str, last: dict[str, Any] | None, where: str | None, jobs: int) -> dict[str, Any]:
    """Try the mutants of a module; with its last record those that survived then, and those of one function."""
    from torture.mutation.candidates import mutants  # mutmut is in the extra: reading the record does not need it

    found = mutants((ROOT / "src" / module).read_text())
    known = {_key(survivor) for survivor in last["survivors"]} if last else None
    tried = [one for one in found if known is None or one.where == where or (one.where, one.was, one.now) in known]
    with tempfile.TemporaryDirectory() as folder:
        ((_, plain),) = run_all([Trial(module, "", tests_of(module))], Path(folder) / "plain", 1)
        if plain.outcome != "survived":
            raise SystemExit(f"the tests of {module} fail without a mutant:\n{plain.said}")
        limit = int(5 * plain.seconds + 30)
        trials = {one.source: Trial(module, one.source, tests_of(module), limit) for one in tried}
        verdicts: dict[str, Verdict] = {}
        changes = {one.source: f"{one.where}: {one.was} -> {one.now}" for one in tried}
        for trial, verdict in run_all(trials.values(), Path(folder), jobs):
            verdicts[trial.source] = verdict
            if _lived(verdict):
                print("survived:", changes[trial.source], file=sys.stderr, flush=True)
            _progress(module, len(verdicts), len(tried), verdicts)
    reasons = read_reasons()
    lived = [{"where": one.where, "was": one.was, "now": one.now} for one in tried if _lived(verdicts[one.source])]
    late = sum(verdict.outcome == "timeout" for verdict in verdicts.values())
    return {
        "mutants": len(found),
        "killed": len(found) - len(lived),
        "timeouts": late if known is None or last is None else last["timeouts"],
        "survived": len(lived),
        "score": _percent(len(found) - len(lived), len(found)),
        "commit": commit(),
        "tests": CORE[module],
        "survivors": [{**one, "why": reasons.get((module, *_key(one)), "")} for one in lived],
    }


def read_reasons() -> dict[tuple[str, str, str, str], str]:
    """(module, where, was, now) -> why no test can or need tell this mutant from the code."""
    entries = tomllib.loads(REASONS.read_text()).get("survivor", []) if REASONS.exists() else []
    return {(entry["module"], *_key(entry)): entry["why"] for entry in entries}


def _key(survivor: Survivor) -> tuple[str, str, str]:
    return survivor["where"], survivor["was"], survivor["now"]


def _lived(verdict: Verdict) -> bool:
    return verdict.outcome == "survived"


def _write(record: dict[str, Any]) -> None:
    modules = record["modules"].values()
    total, killed = (sum(module[name] for module in modules) for name in ("mutants", "killed"))
    score = _percent(killed, total)
    head = {"check": "mutants", "about": ABOUT, "wrong": [], "commit": commit()}
    head |= {"counts": {"mutants": total, "killed": killed, "survived": total - killed, "% killed": score}}
    head |= {"tool": "mutmut", "version": version("mutmut"), "python": platform.python_version()}
    head |= {"torch": version("torch"), "goal": GOAL, "mutants": total, "killed": killed}
    head |= {"survived": total - killed, "score": score}
    record |= {**head, "modules": {name: record["modules"][name] for name in CORE if name in record["modules"]}}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({**head, "modules": record["modules"]}, indent=1, ensure_ascii=False) + "\n")


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(whole, 1), 2)


def _progress(module: str, done: int, all_of_them: int, verdicts: dict[str, Verdict]) -> None:
    if done % 10 == 0 or done == all_of_them:
        lived = sum(map(_lived, verdicts.values()))
        print(f"{module}: {done} of {all_of_them} tried, {lived} survived", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
