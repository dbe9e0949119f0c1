"""The paper's stage profile: CPU and device time of every stage of a step, from DIW to ADIW.

``python -m paper.profiler profile-cifar10`` profiles a recipe of ``paper/recipes`` and prints its tables.
"""
