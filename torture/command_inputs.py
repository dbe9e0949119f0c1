"""Bad command lines: options with values that are not allowed, and folders with damaged or unexpected files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from adiw.cli import main
from torture import values

LIMIT = 600  # longest seconds of a command
TEXTS = (
    "",
    " ",
    "-1",
    "0",
    "nan",
    "inf",
    "1e400",
    "abc",
    "1.5",
    "9" * 30,
    "é\n[red]",
    "x" * 3000,
    "a/b",
    "--",
    "cpu",
)
NUMBERS = ("-1", "0", "nan", "inf", "-inf", "1e400", "abc", "", "0x10", "1,5", "None", "1e308", "5e-324", "0.5", "2")
COUNTS = ("-1", "0", "1.5", "nan", "abc", "", "9" * 30, "None", "2")
# Options of a run: most values are errors, and runs that start are small.
RUN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("shift", "method", "model", "transform", "step", "critic", "solver", "optimizer"), TEXTS),
    **dict.fromkeys(("path", "target", "trusted-file", "trusted-folder", "dataset", "device", "tracker"), TEXTS),
    **dict.fromkeys(("width", "step-size", "penalty", "cap", "min-ess", "lr", "momentum", "weight-decay"), NUMBERS),
    **dict.fromkeys(("clip", "decay"), NUMBERS),
    **dict.fromkeys(("seed", "trusted", "selection", "val-batch", "val-refresh", "val-every", "batch"), COUNTS),
    "decay-every": COUNTS,
    "epochs": ("-1", "0", "1.5", "nan", "abc", "", "None"),
    "workers": ("-1", "abc", "1.5", ""),
    "data-root": ("nowhere", "/dev/null", ""),
}
RUN_NAMES = {
    "method": ("oracle", "diw", "val-only", "two-step-kmm", "adiw-wa"),
    "shift": (
        "none",
        "pair",
        "pair:0.3",
        "symmetric:2",
        "class-prior:0.5,10",
        "covariate:nan",
        "class-conditional:1",
    ),
    "dataset": ("csv", "imagefolder", "fashion-mnist", "cifar10"),
    "model": ("lenet5", "resnet18", "os:system", "nowhere:f", ":", "a:b:c"),
}
SMALL = ("--epochs", "1", "--selection", "1200", "--trusted", "30", "--batch", "32", "--quiet", "--device", "cpu")
SWEEP: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("method", "shift", "path"), TEXTS),
    **dict.fromkeys(("trials", "epochs", "selection"), COUNTS),
    **dict.fromkeys(("side-by-side", "workers"), ("-1", "0", "abc", "1.5", "")),
    "processes": ("-1", "0", "abc", ""),
    "retries": ("-1", "1.5", "abc", ""),
    **dict.fromkeys(("budget", "time-limit"), ("0s", "soon", "-5m", "")),
    "gpus-per-run": ("-1", "0", "2", "nan", "abc", ""),
    "executor": TEXTS,
    "device": TEXTS,
}


def command(random: Random, work: Path) -> list[str]:
    """The arguments of a command; most have an error in them."""
    out = ["--out", str(work / "out" / str(random.randrange(10**9)))]
    kind = random.choice(("run",) * 5 + ("sweep", "report", "report", "audit", "audit", "data", "demo", "odd"))
    if kind == "run":
        return ["run", *SMALL, *out, *options(random, RUN)]
    if kind == "sweep":
        name = random.choice(("fmnist-noise", "fmnist-prior", "cifar10-noise", *TEXTS, recipe(random, work)))
        return ["sweep", name, "--data-root", "nowhere", "--device", "cpu", *out, *options(random, SWEEP)]
    if kind in ("report", "audit"):
        path = random.choice((*TEXTS, "/dev/null", str(work), folder(random, work), folder(random, work)))
        return [kind, path, *(["--top", random.choice(COUNTS)] if kind == "audit" and random.random() < 0.3 else [])]
    if kind == "data":
        return [
            "data",
            random.choice(("get", "got", "")),
            random.choice((*TEXTS, "digits", "csv")),
            "--root",
            str(work / "data"),
        ]
    if kind == "demo":
        return ["demo", "--seeds", random.choice(("-1", "0", "abc", "1.5", "")), *out]
    return random.choices((*TEXTS, "run", "--nothing", "list", "--json", "--help", "-x"), k=random.randrange(4))


def options(random: Random, table: dict[str, tuple[str, ...]]) -> list[str]:
    """One to three options; most values are not allowed."""
    given = []
    for name in random.sample(list(table), random.choice((1, 1, 2, 3))):
        pool = table[name] + RUN_NAMES.get(name, ()) * (table is RUN) * 2
        given += [f"--{name}", random.choice(pool)]
    return given


def recipe(random: Random, work: Path) -> str:
    """The file of a recipe with an error in it."""
    source = Path(sys.modules["adiw"].__file__ or "").parent / "experiments" / "recipe_files" / "fmnist-prior.toml"
    file = work / "mine.toml"
    file.write_bytes(values.content(random, source.read_bytes()))
    return str(file)


FILES = (
    "config.json",
    "metrics.jsonl",
    "result.json",
    "recipe.json",
    "results.jsonl",
    "timing.jsonl",
    "classes.json",
)
FILES += ("weights.npy", "labels.npy", "weight_history.npy", "weight_history.json", "gallery.json", "gallery.npy")


def folder(random: Random, work: Path) -> str:
    """The folder of a run or a sweep with missing or malformed files."""
    path = work / "folders" / str(random.randrange(10**9))
    path.mkdir(parents=True)
    chosen = [name for name in FILES if random.random() < 0.6]
    if random.random() < 0.7:
        chosen = [name for name in chosen if name not in ("recipe.json", "results.jsonl")] + ["config.json"]
    for name in chosen:
        (path / name).write_bytes(content(random, name))
    return str(path)


def content(random: Random, name: str) -> bytes:
    """The content of such a file: almost right, or random."""
    if random.random() < 0.1:
        return random.randbytes(random.choice((0, 3, 200)))
    if name.endswith(".npy"):
        array: Any = random.choice(
            (values.array(random), values.np.ones(4), values.np.ones((4, 6)), values.np.ones((0, 0)))
        )
        file = io.BytesIO()
        values.np.save(
            file, values.np.asarray(array if isinstance(array, values.np.ndarray) else [1.0]), allow_pickle=True
        )
        return file.getvalue()
    value = like(random, name)
    return json.dumps(value).encode() + b"\n"


def like(random: Random, name: str) -> Any:
    """An object with the keys of such a file, some of them missing and some with values of another type."""
    if random.random() < 0.15:
        return values.json_value(random)
    keys: dict[str, dict[str, Any]] = {
        "config.json": {"method": "adiw-kl", "dataset": "digits", "seed": 0, "epochs": 3, "shift": "symmetric:0.4"},
        "metrics.jsonl": {"epoch": 1, "accuracy": 50.0, "loss": 1.0, "ess": 3.0, "top5": 60.0},
        "result.json": {"status": "done", "reason": None, "accuracy": 50.0, "seconds_per_epoch": 0.1, "epochs": 3},
        "recipe.json": {
            **{"name": "a", "title": "A", "about": "b", "kind": "runs", "trials": 1, "measures": ["accuracy"]},
            **{"rows": [{"label": "KL", "settings": {}}], "columns": [{"label": "x", "settings": {}}]},
            **{"common": {"epochs": 3}, "deviations": [], "paper": {}, "changes": {}},
        },
        "results.jsonl": {"row": "KL", "column": "x", "trial": 0, "status": "done", "accuracy": 50.0, "folder": "r"},
        "timing.jsonl": {"row": "KL", "column": "x", "seconds_per_epoch": 1.0},
        "weight_history.json": {"epochs": [1, 2, 3, 4]},
        "gallery.json": {"truth_known": True, "ends": {"lowest": [0]}},
    }
    found = dict(keys.get(name, {}))
    for key in list(found):
        if random.random() < 0.1:
            del found[key]
        elif random.random() < 0.1:
            found[key] = values.json_value(random)
    return found if found else ["a", "b"]


def run_inside(given: list[str]) -> str | None:
    """Run the command in this process: what is wrong with the way it ended, None if nothing is."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["adiw", *given]
    code: Any = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), within(LIMIT):
            main()
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        return f"a traceback: {type(error).__name__}: {str(error)[:200]}{_location(error)}"
    finally:
        sys.argv = before
    return ended_well(code, out.getvalue(), err.getvalue())


def _location(error: BaseException) -> str:
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        found, traceback = f" at {traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}", traceback.tb_next
    return found


def run_outside(given: list[str], work: Path) -> str | None:
    """Run the command in another process."""
    arguments = [text for text in given if "\0" not in text]
    ended = subprocess.run(
        [sys.executable, "-m", "adiw", *arguments], cwd=work, capture_output=True, text=True, timeout=LIMIT
    )
    return ended_well(ended.returncode, ended.stdout, ended.stderr)


def ended_well(code: Any, out: str, err: str) -> str | None:
    """The exit code is one of the command's, and an error is one line that starts with ``adiw:``."""
    if code not in (0, 2, 3):
        return f"exit code {code!r}: {err[-200:]!r}"
    if "Traceback" in out + err:
        return f"a traceback: {err[-300:]!r}"
    lines = [line for line in err.splitlines() if line.strip()]
    if code == 2 and not out and not (lines and lines[-1].startswith("adiw: ") and len(lines[-1]) > 15):
        return f"exit code 2 without a message: {err[-200:]!r}"
    return None


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds."""

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_commands(count: int, outside: int, random: Random, work: Path, wrong: list[str]) -> None:
    """Run ``count`` commands, ``outside`` of them in other processes; ``wrong`` gets a line for each failure."""
    os.chdir(work)
    os.environ.pop("ADIW_DATA", None)
    for k in range(count):
        given = command(random, work)
        problem = run_outside(given, work) if k < outside else run_inside(given)
        if problem:
            wrong.append(f"adiw {' '.join(text[:60] for text in given)}: {problem}")
