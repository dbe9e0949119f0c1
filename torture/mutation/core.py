"""The mutated modules, each with the tests that must detect its mutants: the fast and specific ones first."""

from __future__ import annotations

SUITE = [f"tests/divergences/test_{name}.py" for name in ("settings", "defaults", "edges", "reference")]
EVERY = "tests/divergences/test_every_divergence.py"

CORE: dict[str, list[str]] = {
    "adiw/divergences/registry.py": ["tests/divergences/test_settings.py", "tests/reweighting/test_estimation.py"],
    "adiw/divergences/protocol.py": ["tests/reweighting/test_adiw_resume.py"],
    "adiw/divergences/settings.py": ["tests/divergences/test_settings.py"],
    "adiw/divergences/kl.py": [*SUITE, EVERY, "-k", "not MMD and not Squared and not Wasserstein"],
    "adiw/divergences/mmd.py": [*SUITE, EVERY, "-k", "not KL and not Squared and not Wasserstein"],
    "adiw/divergences/squared.py": [
        *[*SUITE, "tests/divergences/test_steps.py", EVERY],
        *["-k", "not (KL or MMD or Wasserstein or Power or Hellinger or Jensen or Sliced)"],
    ],
    "adiw/divergences/wasserstein.py": [
        *[f"tests/divergences/test_{name}.py" for name in ("wasserstein", "settings", "defaults", "critic")],
        *["tests/divergences/test_reference.py", EVERY, "-k", "not KL and not MMD and not Squared"],
    ],
    "adiw/divergences/sliced.py": [
        *[
            f"tests/divergences/test_{name}.py"
            for name in ("wasserstein", "reference", "families", "steps", "settings", "defaults", "registry")
        ],
        EVERY,
        *[
            "-k",
            "(sliced or Sliced or asserstein or irections or rounding or distances or capabilities) and not network",
        ],
    ],
    "adiw/divergences/critic.py": ["tests/divergences/test_critic.py", EVERY, "-k", "critic and not exact"],
    "adiw/divergences/critic_training.py": ["tests/divergences/test_critic.py", EVERY, "-k", "critic and not exact"],
    "adiw/matching/projections.py": ["tests/matching/test_projections.py"],
    "adiw/reweighting/sample_index.py": ["tests/reweighting/test_sample_index.py"],
    "adiw/reweighting/weight_state.py": [
        f"tests/reweighting/test_{name}.py" for name in ("weight_state", "per_sample_losses")
    ],
    "adiw/reweighting/step.py": [
        f"tests/reweighting/test_{name}.py" for name in ("weight_state", "per_sample_losses")
    ],
    "adiw/reweighting/nonfinite_losses.py": [
        f"tests/reweighting/test_{name}.py" for name in ("per_sample_losses", "adiw_nonfinite")
    ],
    "adiw/reweighting/validation_schedule.py": ["tests/reweighting/test_validation_schedule.py"],
    "adiw/reweighting/dataset_cache.py": ["tests/reweighting/test_dataset_cache.py"],
}


def tests_of(module: str) -> list[str]:
    """The tests of a module, including its own doctests."""
    return [f"src/{module}", *CORE[module]]
