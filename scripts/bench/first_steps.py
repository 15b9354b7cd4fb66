"""The time of a new author: from `git clone` to the first call of an own tool, the first own test, and the first verdict.

    python scripts/bench/first_steps.py [REPOSITORY]

It follows the README and the pages "Test a server" and "Test a server for conformance" literally: it runs the commands of
their installation in a new virtual environment, and the programs that they show. The verdict is that of a server on the
official TypeScript SDK, which npm installs. It prints the seconds since the start after each step. The packages that the
installation downloads are most of the time, so the figures depend on the connection and on the cache of pip.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(command: str, folder: Path, programs: Path, status: int = 0) -> str:
    """Run shown commands in a folder, with the programs of a virtual environment first. Return the output of the last one."""
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    *first, command = command.split(" && ")
    for each in first:
        run(each, folder, programs)
    done = subprocess.run(shlex.split(command), cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != status:
        raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def shown(page: str, pattern: str) -> str:
    """Return what a page shows: the first group of the pattern."""
    found = re.search(pattern, page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"a page no longer shows {pattern!r}")
    return found[1]


def main(repository: str = str(ROOT)) -> None:
    """Follow the pages with a repository: a path, or a URL."""
    began = time.perf_counter()

    def report(step: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {step}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own, checkout, programs = folder / "own", folder / "checkout", folder / "venv" / "bin"
        foreign = folder / "foreign"
        own.mkdir()
        foreign.mkdir()
        subprocess.run(["git", "clone", "--quiet", repository, str(checkout)], check=True)
        report("the repository is cloned")
        subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True)
        readme = (checkout / "README.md").read_text(encoding="utf-8")
        run(shown(readme, r"^\$ (python -m pip install .*?)$"), checkout, programs)
        report("the packages are installed")
        (own / "weather.py").write_text(shown(readme, r"^```python\n(# weather\.py\n.*?)^```"), encoding="utf-8")
        output = run(shown(readme, r"^\$ (mcp-client call .*? -- python weather\.py)$"), own, programs)
        if output.strip() != "Ghent: 3 days of sun":
            raise SystemExit(f"the call printed {output!r}")
        report("the first call of an own tool has returned")
        page = (checkout / "docs/tutorial/testing.md").read_text(encoding="utf-8")
        run(shown(page, r"^\$ (python -m pip install .*?)$"), checkout, programs)
        (own / "test_greeter.py").write_text(
            shown(page, r"^```python\n(# test_greeter\.py\n.*?)^```"), encoding="utf-8"
        )
        run(shown(page, r"^\$ (python -m pytest test_greeter\.py)$"), own, programs)
        report("the first own test has passed")
        page = (checkout / "docs/howto/test-your-server.md").read_text(encoding="utf-8")
        run(shown(page, r"^\$ (python -m pip install .*?)$"), checkout, programs)
        program = shown(page, r"^```js\n(.*?)^```")
        (foreign / program.partition("\n")[0].removeprefix("// ")).write_text(program, encoding="utf-8")
        run(shown(page, r"^    \$ (npm init .*?)$"), foreign, programs)
        report("a server on the TypeScript SDK is installed")
        # The SDK of the server does not conform in all details.
        run(shown(page, r'^    \$ (mcp-conformance server --command "node server\.mjs"[^\n]*)$'), foreign, programs, 1)
        report("the first verdict of that server is printed")


if __name__ == "__main__":
    main(*sys.argv[1:])
