"""The page about distribution: its files and commands result in the bundle and the registry entry that it shows."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from documentation.markdown_blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "distribute-a-server.md"
COMMANDS = re.findall(r"^    (mcp-server pack .+)$", PAGE.read_text(), re.MULTILINE)


def test_commands_of_page_write_bundle_and_entry(tmp_path: Path) -> None:
    shown = {block.language: block.text for block in blocks(PAGE)}
    (tmp_path / "weather.py").write_text(shown["python"])
    (tmp_path / "pyproject.toml").write_text(shown["toml"])
    (mark,) = set(re.findall(r"<!-- mcp-name: \S+ -->", PAGE.read_text()))
    (tmp_path / "README.md").write_text(mark)
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(
            shlex.split(command),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "packed server/weather.py (" in done.stdout
    bundle = tmp_path / "weather-server-1.0.0.mcpb"
    with zipfile.ZipFile(bundle) as packed:
        manifest = json.loads(packed.read("manifest.json"))
    assert manifest["user_config"].keys() == {"api_key"}
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    expected = json.loads(shown["json"].replace("0" * 64, digest))
    assert json.loads((tmp_path / "server.json").read_text()) == expected
