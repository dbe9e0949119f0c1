"""All tasks by name."""

from __future__ import annotations

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

TASKS: dict[str, Task] = {
    task.name: task
    for tasks in (
        *(tasks_images.TASKS, tasks_tables.TASKS, tasks_regressions.TASKS, tasks_text.TASKS),
        *(tasks_glyphs.TASKS, tasks_functions.TASKS, tasks_exported.TASKS, tasks_whole.TASKS),
    )
    for task in tasks
}
