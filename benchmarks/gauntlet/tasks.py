"""All tasks by name, or those of a user's own file in their place."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from benchmarks.gauntlet import (
    tasks_exported,
    tasks_functions,
    tasks_glyphs,
    tasks_images,
    tasks_regressions,
    tasks_tables,
    tasks_text,
    tasks_whole,
)
from benchmarks.gauntlet.task import Task

OWN = Path(os.environ["ADIW_TASKS"]).resolve() if os.environ.get("ADIW_TASKS") else None


def own_tasks(file: Path) -> list[Task]:
    """The list ``TASKS`` of a Python file."""
    tasks = runpy.run_path(str(file)).get("TASKS")
    if not isinstance(tasks, list) or not all(isinstance(task, Task) for task in tasks):
        raise SystemExit(f"ADIW_TASKS: {file} must have a list TASKS of benchmarks.gauntlet.task.Task")
    return tasks


def _tasks() -> list[Task]:
    if OWN is not None:
        return own_tasks(OWN)
    parts = (
        *(tasks_images.TASKS, tasks_tables.TASKS, tasks_regressions.TASKS, tasks_text.TASKS),
        *(tasks_glyphs.TASKS, tasks_functions.TASKS, tasks_exported.TASKS, tasks_whole.TASKS),
    )
    return [task for part in parts for task in part]


TASKS: dict[str, Task] = {task.name: task for task in _tasks()}
