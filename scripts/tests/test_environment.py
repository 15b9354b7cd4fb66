from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import environment
from checks import static_types as check_types
from environment import CONSTRAINTS, DISTRIBUTIONS, GROUPS, ROOT, ensure, fingerprint, requirements


def project(path: str) -> dict[str, object]:
    found = tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
    assert isinstance(found, dict)
    return found


def test_own_distributions_not_required() -> None:
    names = {re.split(r"[<>=]", required)[0] for required in requirements(ROOT, DISTRIBUTIONS, (*GROUPS, "release"))}
    assert {"attrs", "trio", "rich", "pytest", "mypy", "towncrier"} <= names
    assert not {name for name in names if name.startswith("mcp")}


def test_requirements_of_one_distribution() -> None:
    required = requirements(ROOT, ("packages/mcp-core",), (), extras=False)
    assert {re.split(r"[<>=]", each)[0] for each in required} == {"attrs", "jsonschema-rs", "orjson"}


def test_requirement_on_own_extra_replaced() -> None:
    required = requirements(ROOT, ("packages/mcp-core", "packages/mcp-client"), (), extras=False)
    assert "trio" in {re.split(r"[<>=]", each)[0] for each in required}
    assert [each for each in requirements(ROOT, ("packages/mcp-server",), ()) if each.startswith("pyyaml")]


def test_requirements_without_extras() -> None:
    everything = requirements(ROOT, ("packages/mcp-client",), ())
    extras = set(everything) - set(requirements(ROOT, ("packages/mcp-client",), (), extras=False))
    assert {re.split(r"[<>=]", each)[0] for each in extras} == {
        "cryptography", "joserfc", "keyring", "opentelemetry-api", "prompt-toolkit", "pytest", "pyyaml", "rich",
    }  # fmt: skip


def test_constraints_pin_exact_versions_only() -> None:
    lines = [line for line in (ROOT / CONSTRAINTS).read_text().splitlines() if not line.startswith("#")]
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    required = requirements(ROOT, DISTRIBUTIONS, (*GROUPS, "interop", "release"))
    assert {re.split(r"[<>=;]", each)[0] for each in required} <= pinned


def test_distributions_have_one_version_and_pin_core() -> None:
    versions: set[str] = set()
    for path in DISTRIBUTIONS:
        (init_module,) = (ROOT / path / "src").glob("*/__init__.py")
        found = re.search(r'^__version__ = "([^"]+)"$', init_module.read_text(), re.MULTILINE)
        assert found, init_module
        versions.add(found[1])
    (version,) = versions
    for path in DISTRIBUTIONS:
        dependencies, extras = project(path)["dependencies"], project(path).get("optional-dependencies", {})
        assert isinstance(dependencies, list)
        assert isinstance(extras, dict)
        ours = [name for name in dependencies if str(name).startswith("trio-mcp-")]
        core = {"packages/mcp-client": "trio-mcp-core[trio]", "packages/mcp-server": "trio-mcp-core[trio]"}.get(
            path, "trio-mcp-core"
        )
        assert ours == ([] if path == "packages/mcp-core" else [f"{core}=={version}"])
        ours_of_extras = [name for names in extras.values() for name in names if name.startswith("trio-mcp-")]
        assert all(re.fullmatch(rf"trio-mcp-core\[\w+\]=={version}", name) for name in ours_of_extras)


def test_distributions_do_not_use_names_of_official_package() -> None:
    for path in DISTRIBUTIONS:
        assert "mcp" not in [child.name for child in (ROOT / path / "src").iterdir()]
        scripts = project(path).get("scripts", {})
        assert isinstance(scripts, dict)
        assert "mcp" not in scripts


def test_distributions_contain_license() -> None:
    for path in DISTRIBUTIONS:
        assert (ROOT / path / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the files that determine an environment; nothing is installed."""
    for name in [
        CONSTRAINTS,
        "scripts/environment.py",
        "pyproject.toml",
        *(f"{path}/pyproject.toml" for path in DISTRIBUTIONS),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def create(place: Path, *, with_pip: bool, symlinks: bool) -> None:
        assert with_pip
        assert symlinks
        (place / "bin").mkdir()

    monkeypatch.setattr("environment.venv.create", create)
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The arguments of each call of pip."""
    calls: list[tuple[str, ...]] = []

    def pip(place: Path, *arguments: str) -> None:
        assert (place / "bin").is_dir()
        calls.append(arguments)

    monkeypatch.setattr(environment, "_pip", pip)
    return calls


def test_environment_created_once(checkout: Path, installed: list[tuple[str, ...]]) -> None:
    ensure(checkout)
    ensure(checkout)
    dependencies, ours = installed
    assert dependencies[:2] == ("--constraint", str(checkout / CONSTRAINTS))
    assert ours[:2] == ("--no-deps", "--no-build-isolation")
    assert [Path(argument) for argument in ours[3::2]] == [checkout / path for path in DISTRIBUTIONS]


def _touch_constraints(checkout: Path) -> None:
    with (checkout / CONSTRAINTS).open("a") as file:
        file.write("# changed\n")


def _touch_project(checkout: Path) -> None:
    with (checkout / "packages/mcp-server/pyproject.toml").open("a") as file:
        file.write("# changed\n")


def _lose_stamp(checkout: Path) -> None:
    (checkout / ".venv" / "stamp").unlink()


@pytest.mark.parametrize("change", [_touch_constraints, _touch_project, _lose_stamp])
def test_environment_recreated_after_change(
    checkout: Path, installed: list[tuple[str, ...]], change: Callable[[Path], None]
) -> None:
    ensure(checkout)
    (checkout / ".venv" / "left-over").mkdir()
    change(checkout)
    ensure(checkout)
    assert len(installed) == 4
    assert not (checkout / ".venv" / "left-over").exists()


def test_fingerprint_depends_on_interpreter_and_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(checkout)
    assert fingerprint(checkout) == before
    monkeypatch.setattr("environment.sys.version", "3.99.0")
    assert fingerprint(checkout) != before
    moved = checkout.rename(checkout.with_name("moved"))
    monkeypatch.undo()
    assert fingerprint(moved) != before


def test_environment_recreated_after_failure(
    checkout: Path, installed: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: Path, *_arguments: str) -> None:
        (place / "half").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_pip", fail)
        with pytest.raises(KeyboardInterrupt):
            ensure(checkout)
    ensure(checkout)
    assert len(installed) == 2
    assert not (checkout / ".venv" / "half").exists()


def test_foreign_environment_not_modified(checkout: Path, installed: list[tuple[str, ...]]) -> None:
    mine = checkout / ".venv" / "pyvenv.cfg"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(SystemExit, match="was not made by these scripts"):
        ensure(checkout)
    assert mine.exists()
    assert installed == []


def test_pip_failure_quoted(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho no matching distribution\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(SystemExit, match=r"(?s)no matching distribution.*check the network"):
        environment._pip(tmp_path, "nothing")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"python3": 'case "$2" in *print*) echo 3.8;; *) exit 1;; esac'}, "python3 is 3.8, too old;"),
        ({"python3": "exit 127"}, "no Python at all"),
        ({}, "no Python at all"),
        ({"python3.12": 'echo 3.12; case "$2" in *ensurepip*) exit 1;; esac'}, "install python3.12-venv"),
    ],
)
def test_scripts_without_usable_python_report_remedy(tmp_path: Path, answers: dict[str, str], expected: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("dirname", "sh"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    for name, body in answers.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    run = subprocess.run(
        [ROOT / "scripts" / "demo"], env={**os.environ, "PATH": str(tools)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert expected in run.stderr
    assert "Python 3.11 or newer" in run.stderr


def test_static_type_check_covers_tests_with_unique_module_names() -> None:
    runs = check_types.runs(ROOT)
    checked = {path for run in runs for path in run}
    assert {
        "packages/mcp-core/src",
        "packages/mcp-client/src",
        "packages/mcp-server/src",
        "conformance",
        "scripts",
    } <= checked
    for run in runs:
        tests = [name.name for path in run if "packages" in path for name in (ROOT / path).rglob("test_*.py")]
        assert len(tests) == len(set(tests))
