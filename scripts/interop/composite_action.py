"""A runner of composite GitHub actions: performs the steps with a script, and records those that use other actions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["ActionRun", "perform"]

_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@dataclass
class ActionRun:
    """The outcome of a composite action."""

    status: int = 0
    """The exit status of the first step that failed, or 0."""
    output: str = ""
    """The output of all scripts."""
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    """The inputs of the other actions that were used, by their names without a version."""
    contexts: dict[str, str] = field(default_factory=dict)
    """The values of expressions: `inputs.NAME`, `steps.ID.outputs.NAME`, `github.action_path`."""

    def text(self, template: str) -> str:
        """Return a text with the values of its expressions."""
        return _EXPRESSION.sub(lambda found: self.contexts.get(found[1], ""), template)

    def holds(self, condition: str) -> bool:
        """Return whether a condition holds: terms joined by `&&`, each `always()` or a comparison with a text.

        Raises:
            ValueError: The condition has other terms.
        """
        terms = [term.strip() for term in condition.split("&&")]
        if "always()" not in terms and self.status:
            return False
        for term in terms:
            compared = re.fullmatch(r"([\w.-]+) (==|!=) '([^']*)'", term)
            if compared is not None:
                if (self.contexts.get(compared[1], "") == compared[3]) != (compared[2] == "=="):
                    return False
            elif term not in ("always()", "success()"):
                raise ValueError(f"the condition {term!r} is unknown")
        return True


def perform(
    action: Path,
    folder: Path,
    inputs: Mapping[str, str],
    *,
    outputs: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str] = {},
) -> ActionRun:
    """Perform the steps of a composite action, as the CI service does.

    Args:
        action: The file `action.yml`.
        folder: The working directory, which also has the files of the runner.
        inputs: The inputs of the action.
        outputs: The outputs of the other actions that it uses, by their names without a version.
        environment: More variables for the scripts.

    Raises:
        ValueError: An input is unknown.
    """
    document = yaml.safe_load(action.read_text(encoding="utf-8"))
    if unknown := set(inputs) - set(document["inputs"]):
        raise ValueError(f"the action has no input {', '.join(sorted(unknown))}")
    run = ActionRun()
    run.contexts["github.action_path"] = str(action.parent)
    for name, row in document["inputs"].items():
        run.contexts[f"inputs.{name}"] = inputs.get(name, str(row.get("default", "")))
    for step in document["runs"]["steps"]:
        if not run.holds(step.get("if", "success()")):
            continue
        if "uses" in step:
            name = step["uses"].partition("@")[0]
            run.used[name] = {key: run.text(str(value)) for key, value in step.get("with", {}).items()}
            found = outputs.get(name, {})
        else:
            found = _script(run, step, folder, environment)
        for key, value in found.items():
            run.contexts[f"steps.{step.get('id', '')}.outputs.{key}"] = value
    return run


def _script(
    run: ActionRun, step: Mapping[str, object], folder: Path, environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Perform a step with a script and return its outputs."""
    written = folder / "output"
    written.write_text("")
    variables = step.get("env", {})
    assert isinstance(variables, dict)
    process = subprocess.run(
        [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", str(step["run"])],
        cwd=folder,
        env=os.environ
        | {name: run.text(str(value)) for name, value in variables.items()}
        | {
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(written),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_WORKFLOW_REF": "owner/repository/.github/workflows/ci.yml@refs/heads/main",
        }
        | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    run.output += process.stdout
    run.status = run.status or process.returncode
    return dict(line.split("=", 1) for line in written.read_text().splitlines())
