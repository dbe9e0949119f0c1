"""The table of divergences: registration, entry points, users' classes, settings as text, capabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch

import adiw
from adiw import DIVERGENCES, estimate_weights, register
from adiw.divergences import KL, MMD, Wasserstein, capabilities, registry, resolve


@dataclass(frozen=True)
class Half(KL):
    """KL with half the width."""

    width: float = 0.25


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """The table is the same after the test, and entry points are looked up again."""
    before = dict(DIVERGENCES)
    registry.load_entry_points.cache_clear()
    yield
    DIVERGENCES.clear()
    DIVERGENCES.update(before)
    registry.load_entry_points.cache_clear()


def test_a_registered_class_has_its_name_everywhere() -> None:
    assert register("half-width")(Half) is Half
    assert resolve("half-width") == Half()
    z = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    assert torch.equal(estimate_weights(*z, "half-width")[0], estimate_weights(*z, KL(0.25))[0])


def test_a_name_is_refused_the_second_time_and_the_error_lists_the_names() -> None:
    register("half")(Half)
    with pytest.raises(ValueError, match=r"divergence 'half' exists already \(Half\)") as raised:
        register("half")(Half)
    for name in DIVERGENCES:
        assert repr(name) in str(raised.value)
    with pytest.raises(ValueError, match=r"'kl' exists already \(KL\)"):
        register("kl")(Half)
    assert DIVERGENCES["kl"] is KL


@pytest.mark.parametrize("name", ["", "Half", "two words", "a:b", "-a", "a-", None, 3])
def test_bad_names(name: Any) -> None:
    with pytest.raises(ValueError, match="expected a name of lower-case letters, digits and hyphens"):
        register(name)


@dataclass
class Thawed:
    step_size: float = 1.0


@dataclass(frozen=True)
class Bare:
    step_size: float
    side = "train"

    def problem(self, batches: Any) -> Any: ...


@dataclass(frozen=True)
class Sideless:
    step_size: float = 1.0

    def problem(self, batches: Any) -> Any: ...


@dataclass(frozen=True)
class Stepless:
    side = "train"

    def problem(self, batches: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (KL(), r"expected a class with @dataclass\(frozen=True\)"),
        (dict, r"expected a class with @dataclass\(frozen=True\)"),
        (Thawed, r"expected a class with @dataclass\(frozen=True\)"),
        (Bare, "expected a default for every field, step_size has none"),
        (Sideless, 'expected side = "train" or "val", got None'),
        (Stepless, "expected a field step_size and a method problem"),
    ],
)
def test_a_class_that_is_not_a_divergence_is_refused(kind: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"divergence 'mine': {message}"):
        register("mine")(kind)
    assert "mine" not in DIVERGENCES


def installed(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    found = [EntryPoint(name, value, registry.GROUP) for name, value in entries.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "adiw.divergences" else [])


def test_a_package_adds_a_divergence_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, packaged="adiw.divergences.kl:KL")
    assert "packaged" not in DIVERGENCES
    assert resolve("packaged") == KL()
    with pytest.raises(ValueError, match="unknown divergence 'packagd': expected one of 'packaged'"):
        resolve("packagd")


def test_a_broken_package_gives_a_warning_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        monkeypatch, broken="no_such_module:Mine", kl="adiw.divergences.mmd:MMD", fine="adiw.divergences.mmd:MMD"
    )
    with pytest.warns(UserWarning, match="is not available") as warned:
        assert resolve("fine") == MMD()
    first, second = (str(warning.message) for warning in warned)
    assert (
        first == "the divergence 'broken' of no_such_module:Mine is not available: No module named 'no_such_module'"
    )
    assert "'kl' exists already" in second
    assert DIVERGENCES["kl"] is KL


def test_a_module_that_registers_its_own_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    register("own")(Half)
    installed(monkeypatch, own=f"{__name__}:Half")
    monkeypatch.setattr(EntryPoint, "load", lambda self: Half)
    registry.load_entry_points()
    assert DIVERGENCES["own"] is Half


def test_a_class_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_divergences.py").write_text(
        "from adiw.divergences import KL as Mine\nfrom dataclasses import dataclass\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert resolve("their_divergences:Mine") == KL()
    with pytest.raises(TypeError, match=r"'their_divergences:dataclass': expected a class with @dataclass"):
        resolve("their_divergences:dataclass")
    for spec, message in {
        "their_divergences:Missing": "expected a class in their_divergences, found none; check the name",
        "their_divergences:number": "expected a class in their_divergences, found one of type int; check the name",
        "not_there:Mine": "found no module 'not_there'; run in its directory or install it",
        "a b:c": "expected package.module:Class; write for example my_divergences:Mine",
    }.items():
        with pytest.raises(ValueError, match=f"divergence '{spec}': {message}"):
            resolve(spec)


def test_settings_as_text_have_the_type_of_their_default() -> None:
    text = "critic=network, scale=2,pretrain=3,learning_rate=1e-3"
    found = registry.parse_settings(Wasserstein, text)
    assert found == {"critic": "network", "scale": 2.0, "pretrain": 3, "learning_rate": 0.001}
    assert [type(value) for value in found.values()] == [str, float, int, float]
    assert Wasserstein(**found) == Wasserstein("network", 2.0, pretrain=3, learning_rate=1e-3)
    assert registry.parse_settings(MMD, "slack=0.5,width=auto") == {"slack": 0.5, "width": "auto"}
    assert registry.parse_settings(MMD, "slack=None") == {"slack": None}
    assert registry.parse_settings(MMD, "") == {}
    for bad in ("width", "width=", "=1"):
        with pytest.raises(ValueError, match="MMD"):
            registry.parse_settings(MMD, bad)


def test_a_boolean_setting_as_text() -> None:
    @dataclass(frozen=True)
    class Flag(KL):
        flag: bool = False

    assert registry.parse_settings(Flag, "flag=true") == {"flag": True}
    with pytest.raises(ValueError, match="Flag: flag: expected true or false, got 'perhaps'"):
        registry.parse_settings(Flag, "flag=perhaps")


def test_capabilities_come_from_the_class() -> None:
    found = capabilities(Wasserstein)
    assert (found.z, found.parameters, found.width, found.learns) == (("loss", "features"), "train", False, True)
    assert (capabilities(KL).parameters, capabilities(KL).width, capabilities(KL).learns) == ("val", True, False)

    class Scalar(KL):
        z = ("loss",)
        cost = "n"

    assert capabilities(Scalar) == replace(capabilities(KL), z=("loss",), cost="n")
    for kind in adiw.DIVERGENCES.values():
        assert re.search(r"[nm]", capabilities(kind).cost), kind
        assert capabilities(kind).cost != "not stated"
