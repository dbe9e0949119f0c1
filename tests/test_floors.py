"""The declared versions are the tested ones, and the code requires the same."""

from __future__ import annotations

import json
import re

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.isolated_install import EXTRAS, PROJECT, ROOT, TOOLS

DECLARED = [
    Requirement(text)
    for text in [*PROJECT["dependencies"], *(text for extra in EXTRAS.keys() - TOOLS for text in EXTRAS[extra])]
]
RECORDS = sorted(file.stem for file in (ROOT / "versions").glob("*.txt"))
# Declared after the records were written; empty after the next `make versions`.
SINCE = {"jinja2", "pooch", "pandas", "pyarrow", "ray"}


def pins(name: str) -> dict[str, Version]:
    lines = (ROOT / "versions" / f"{name}.txt").read_text().splitlines()
    return {line.partition("==")[0]: Version(line.partition("==")[2]) for line in lines if "==" in line}


def floor(requirement: Requirement) -> Version:
    (specifier,) = requirement.specifier
    assert specifier.operator == ">=", requirement
    return Version(specifier.version)


def test_the_lowest_versions_are_the_floors() -> None:
    lowest = pins("lowest")
    assert {requirement.name for requirement in DECLARED} == set(lowest)
    for requirement in DECLARED:
        found, declared = lowest[requirement.name], floor(requirement)
        assert found.release[:2] == (*declared.release, 0)[:2], requirement  # 10.0.0 for 10, 1.11.1 for 1.11
        assert found in requirement.specifier, requirement


def test_the_newest_versions_are_in_the_range() -> None:
    newest = pins("newest")
    assert {requirement.name for requirement in DECLARED} == set(newest)
    assert all(newest[requirement.name] in requirement.specifier for requirement in DECLARED)


@pytest.mark.parametrize("module", ["lightning", "huggingface"])
def test_the_integrations_require_the_floors(module: str) -> None:
    text = (ROOT / "src" / "adiw" / "integrations" / f"{module}.py").read_text()
    required = re.findall(r'^require\("([\w-]+)", "([\d.]+)", "(\w+)"\)', text, re.MULTILINE)
    assert required
    for package, least, extra in required:
        assert f"{package}>={least}" in EXTRAS[extra]


@pytest.mark.parametrize("name", ["lowest", "newest"])
def test_the_records_are_of_these_versions(name: str) -> None:
    record = json.loads((ROOT / "results" / "versions" / f"{name}.json").read_text())
    pinned = {package: version for package, version in pins(name).items() if package not in SINCE}
    assert {package: Version(record["versions"][package]) for package in pinned} == pinned
    assert {"tests/integrations", "tests/cli", "tests/baselines"} <= set(record["parts"])


@pytest.mark.parametrize("name", RECORDS)
def test_no_test_failed_with_a_declared_python(name: str) -> None:
    record = json.loads((ROOT / "results" / "versions" / f"{name}.json").read_text())
    assert record["versions"]["python"] in SpecifierSet(PROJECT["requires-python"])
    assert record["parts"]
    assert [test for part in record["parts"].values() for test in part["failed"]] == []


@pytest.mark.parametrize("name", RECORDS)
def test_no_extra_was_missing_in_the_recorded_runs(name: str) -> None:
    record = json.loads((ROOT / "results" / "versions" / f"{name}.json").read_text())
    reasons = {reason for part in record["parts"].values() for reason in part["skipped"]}
    used = EXTRAS.keys() - TOOLS
    assert [reason for reason in reasons if any(f"adiw[{extra}]" in reason for extra in used)] == []


def test_the_classifiers_name_the_tested_pythons() -> None:
    records = (ROOT / "results" / "versions").glob("*.json")
    ran = {".".join(json.loads(file.read_text())["versions"]["python"].split(".")[:2]) for file in records}
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert named == ran
