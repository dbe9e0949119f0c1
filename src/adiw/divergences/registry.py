"""The table of divergences: built-in ones, users' own, and those of installed packages.

To add a divergence to the library, add a file to this folder and a line to the table below.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar

from adiw import user_code
from adiw.divergences.energy import Energy
from adiw.divergences.jensen_shannon import JensenShannon
from adiw.divergences.kl import KL
from adiw.divergences.mmd import MMD
from adiw.divergences.power import Hellinger, Power
from adiw.divergences.protocol import Divergence
from adiw.divergences.relative import Relative
from adiw.divergences.sliced import Sliced
from adiw.divergences.squared import Squared
from adiw.divergences.wasserstein import Wasserstein

GROUP = "adiw.divergences"  # of the entry points of other packages
FORM, EXAMPLE = "package.module:Class", "my_divergences:Mine"
BOOLEANS = {"true": True, "false": False}
Kind = TypeVar("Kind", bound=type[Divergence])
DIVERGENCES: dict[str, type[Divergence]] = {
    "mmd": MMD,
    "kl": KL,
    "squared": Squared,
    "wasserstein": Wasserstein,
    "relative": Relative,
    "pearson": Power,
    "hellinger": Hellinger,
    "jensen-shannon": JensenShannon,
    "energy": Energy,
    "sliced": Sliced,
}
"""The names that ``divergence=`` accepts, and the class of each."""


def register(name: str) -> Callable[[Kind], Kind]:
    """Class decorator: ``divergence="name"`` and the method ``adiw-name`` then mean this class.

    >>> from adiw.divergences import KL
    >>> register("kl")(KL)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: divergence 'kl' exists already (KL): choose a name other than 'mmd', ...
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(f"divergence {name!r}: expected a name of lower-case letters, digits and hyphens")

    def add(kind: Kind) -> Kind:
        if name in DIVERGENCES:
            raise ValueError(
                f"divergence {name!r} exists already ({DIVERGENCES[name].__name__}): choose a name other than "
                f"{', '.join(map(repr, DIVERGENCES))}"
            )
        DIVERGENCES[name] = check_kind(kind, repr(name))
        return kind

    return add


def check_kind(kind: Any, name: str) -> Any:
    """The class itself; raise unless it is a divergence as docs/add-a-divergence.md describes it."""
    is_frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009 - not in the stubs
    if not isinstance(kind, type) or not is_frozen:
        raise TypeError(f"divergence {name}: expected a class with @dataclass(frozen=True), got {kind!r}")
    bare = [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    if bare:
        raise TypeError(f"divergence {name}: expected a default for every field, {', '.join(bare)} has none")
    if getattr(kind, "side", None) not in ("train", "val"):
        raise TypeError(f'divergence {name}: expected side = "train" or "val", got {getattr(kind, "side", None)!r}')
    if "step_size" not in {field.name for field in fields(kind)} or not callable(getattr(kind, "problem", None)):
        raise TypeError(f"divergence {name}: expected a field step_size and a method problem(batches)")
    return kind


@cache
def load_entry_points() -> None:
    """Register the divergences of installed packages, once. A package that cannot be imported gives a warning."""
    for entry in entry_points(group=GROUP):
        try:
            kind = entry.load()
            if DIVERGENCES.get(entry.name) is not kind:  # its own module may have registered it
                register(entry.name)(kind)
        except Exception as error:
            warnings.warn(f"the divergence {entry.name!r} of {entry.value} is not available: {error}", stacklevel=2)


def find(name: str) -> type[Divergence]:
    """The class of a name in ``DIVERGENCES``, of an installed package's entry point, or of ``package.module:Class``.

    >>> find("adiw.divergences.kl:KL").__name__
    'KL'
    """
    if ":" in name:
        return check_kind(user_code.load(name, "divergence", "a class", FORM, EXAMPLE), repr(name))  # type: ignore[no-any-return]
    if name not in DIVERGENCES:
        load_entry_points()
    if name not in DIVERGENCES:
        near = get_close_matches(name, DIVERGENCES, n=len(DIVERGENCES), cutoff=0)
        raise ValueError(
            f"unknown divergence {name!r}: expected one of {', '.join(map(repr, near))}, {FORM}, or an instance"
        )
    return DIVERGENCES[name]


def resolve(divergence: str | Divergence) -> Divergence:
    """A divergence with its settings, from the name of a class (see ``find``) or from an instance.

    >>> resolve("kl")
    KL(width=0.5, step_size=0.5, update='rescale')
    >>> resolve("klx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown divergence 'klx': expected one of 'kl', ..., or an instance
    """
    if isinstance(divergence, str):
        return find(divergence)()
    if isinstance(divergence, type) or not callable(getattr(divergence, "problem", None)):
        raise TypeError(
            f"divergence must be a name in adiw.DIVERGENCES or an instance such as KL(), got {divergence!r}"
        )
    return divergence


def parse_settings(kind: type[Divergence], text: str) -> dict[str, Any]:
    """The fields of a divergence that ``key=value,key=value`` sets, as the type of their default.

    >>> from adiw.divergences import MMD
    >>> parse_settings(MMD, "width=auto,step_size=1,slack=none")
    {'width': 'auto', 'step_size': 1.0, 'slack': None}
    >>> parse_settings(MMD, "widht=1")
    Traceback (most recent call last):
    ValueError: MMD has no setting 'widht': expected width, step_size, upper, slack, step, kernel
    """
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = map(str.strip, part.partition("="))
        if not equals or not value:
            raise ValueError(f"settings of {kind.__name__}: expected key=value, got {part!r}")
        if key not in known:
            raise ValueError(f"{kind.__name__} has no setting {key!r}: expected {', '.join(known)}")
        try:
            found[key] = _value(value, known[key].default)
        except ValueError as error:
            raise ValueError(f"{kind.__name__}: {key}: {error}") from None
    return found


def _value(text: str, default: Any) -> Any:
    """The number, boolean or None that a text stands for, or else the text."""
    if text.lower() == "none":
        return None
    if isinstance(default, bool):
        if text.lower() not in BOOLEANS:
            raise ValueError(f"expected true or false, got {text!r}")
        return BOOLEANS[text.lower()]
    for number in (int, float) if isinstance(default, int) else (float,):
        try:
            return number(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Capabilities:
    """What a divergence can match and what it costs, for lists and for the choice of tests.

    Attributes:
        z: what it matches: losses (one number per sample), features (vectors), or both.
        parameters: one weight per training sample ("train") or one coefficient per validation sample ("val").
        width: whether it has a kernel width to choose.
        learns: whether it trains a model across batches.
        cost: operations of a step for n training and m validation samples, as an order of growth.
    """

    z: tuple[Literal["loss", "features"], ...]
    parameters: Literal["train", "val"]
    width: bool
    learns: bool
    cost: str

    def __str__(self) -> str:
        names = [field for field in ("width", "learns") if getattr(self, field)]
        return "; ".join([" and ".join(self.z), *names, f"cost {self.cost}"])


def capabilities(kind: type[Divergence]) -> Capabilities:
    """The capabilities of a divergence. ``z`` and ``cost`` come from class variables, which may be absent.

    >>> from adiw.divergences import KL
    >>> print(capabilities(KL))
    loss and features; width; cost m (n + m)
    """
    return Capabilities(
        z=getattr(kind, "z", ("loss", "features")),
        parameters=kind.side,
        width=any(field.name == "width" for field in fields(kind)),  # type: ignore[arg-type]
        learns=hasattr(kind, "learn"),
        cost=getattr(kind, "cost", "not stated"),
    )


def describe(kind: type[Divergence]) -> str:
    """The first line of a divergence's docstring, for lists.

    >>> from adiw.divergences import KL
    >>> describe(KL)
    'Kullback-Leibler divergence (KLIEP)'
    """
    return (inspect.getdoc(kind) or kind.__name__).partition("\n")[0].rstrip(".")
