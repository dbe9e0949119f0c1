"""A few mutants by hand, for `make test`: each a line of the core that a named test must not let pass."""

from __future__ import annotations

from dataclasses import dataclass

from torture.mutation.trial import ROOT, Trial


@dataclass(frozen=True)
class Slip:
    """``was`` of a module (a text that occurs once) became ``now``; ``test`` is what should notice."""

    module: str
    was: str
    now: str
    test: str

    def trial(self) -> Trial:
        source = (ROOT / "src" / self.module).read_text()
        if source.count(self.was) != 1:
            raise ValueError(f"{self.module} has {self.was!r} {source.count(self.was)} times, expected once")
        file, _, name = self.test.partition("::")
        return Trial(self.module, source.replace(self.was, self.now), [file, *(["-k", name] if name else [])])


REFERENCE, CRITIC = "tests/divergences/test_reference.py", "tests/divergences/test_critic.py"
STREAM = "adiw/reweighting/validation_stream.py"
PROBE = "tests/reweighting/test_validation_stream.py"
SAMPLE = [
    Slip("adiw/divergences/kl.py", "beta=0, alpha=-1", "beta=0, alpha=1", f"{REFERENCE}::objective and kl"),
    Slip("adiw/divergences/mmd.py", "(root - 1) / root", "(root + 1) / root", f"{REFERENCE}::objective and mmd"),
    Slip("adiw/divergences/squared.py", "(self.h - self.", "(self.h + self.", f"{REFERENCE}::objective and squared"),
    Slip("adiw/divergences/wasserstein.py", "> self.pretrain", ">= self.pretrain", f"{CRITIC}::stand_still"),
    Slip("adiw/divergences/critic.py", "0.999 ** steps", "0.99 ** steps", f"{CRITIC}::adam"),
    Slip(
        "adiw/matching/projections.py",
        "(above - target) /",
        "(above + target) /",
        "tests/matching/test_projections.py::solver",
    ),
    Slip(
        "adiw/reweighting/values_by_index.py",
        "masked(mask, index, len(self))",
        "index",
        "tests/reweighting/test_values_by_index.py::masked",
    ),
    Slip(
        "adiw/reweighting/weight_state.py",
        "self.seen_samples > len",
        "self.seen_samples >= len",
        "tests/reweighting/test_weight_state.py::warm_up",
    ),
    Slip(STREAM, "% self.every == 0", "% self.every == 1", f"{PROBE}::every"),
    Slip(
        "adiw/reweighting/validation_stream.py",
        "range(self.processes.rank * size",
        "range(0 * size",
        f"{PROBE}::team",
    ),
]
