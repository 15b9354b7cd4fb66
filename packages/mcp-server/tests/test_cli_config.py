"""The configuration file of `mcp-server run`: the same options as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_server.cli import http
from mcp_server.cli.main import main
from mcp_server.cli.options import CommandOption, ConfigError, read_config


def written(folder: Path, text: str) -> Path:
    path = folder / "server.toml"
    path.write_text(text)
    return path


def test_file_has_each_option_of_command(tmp_path: Path) -> None:
    lines, expected = [], {}
    for option in http.OPTIONS:
        value: object = option.choices[0] if option.choices else {str: "text", int: 3, bool: True}[option.kind]
        value = [value] if option.repeated else value
        lines.append(f"{option.name} = {str(value).lower() if option.kind is bool else repr(value)}")
        expected[option.attribute] = value
    assert read_config(written(tmp_path, "\n".join(lines)), http.OPTIONS) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allowed_host = []", "server.toml: unknown key 'allowed_host'; did you mean 'allowed-host'?"),
        ("worker = 2", "server.toml: unknown key 'worker'; did you mean 'workers'?"),
        ("zzz = 2", "server.toml: unknown key 'zzz'; the keys are "),
        ("[http]\nbind = 1", 'server.toml: http must be a string: http = "HOST:PORT"'),
        ("workers = '2'", "server.toml: workers must be an integer: workers = 1"),
        ("workers = true", "server.toml: workers must be an integer: workers = 1"),
        ("healthz = 1", "server.toml: healthz must be true or false: healthz = true"),
        ("allowed-host = 'a'", 'server.toml: allowed-host must be an array of strings: allowed-host = ["NAME"]'),
        (
            "log-level = 'loud'",
            "server.toml: log-level must be one of debug, info, warning, error, critical, not 'loud'",
        ),
        ("http = ", "server.toml is not valid TOML: "),
    ],
)
def test_unusable_file_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(written(tmp_path, text), http.OPTIONS)
    assert message in str(raised.value)


def test_missing_file_ends_command_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", str(tmp_path / "missing.toml")]) == 2
    assert "cannot read the configuration file" in capsys.readouterr().err


def test_command_line_takes_precedence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = written(tmp_path, 'target = "in_file.py"\nhttp = "127.0.0.1:0"\ntls-key = "key"')
    # The combination of both is checked.
    with pytest.raises(SystemExit):
        main(["run", "--config", str(config)])
    assert "--tls-key needs --tls-cert" in capsys.readouterr().err
    assert main(["run", "on_line.py", "--config", str(config), "--tls-cert", "cert"]) == 2
    assert "no file on_line.py" in capsys.readouterr().err
    assert main(["run", "--config", str(config), "--tls-cert", "cert"]) == 2
    assert "no file in_file.py" in capsys.readouterr().err


def test_target_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--http", "127.0.0.1:0"])
    assert "TARGET" in capsys.readouterr().err


def test_form_of_option_without_metavar_is_shown(tmp_path: Path) -> None:
    table = [CommandOption(name="level", choices=("low", "high"), help="")]
    with pytest.raises(ConfigError, match='level must be a string: level = "low"'):
        read_config(written(tmp_path, "level = 1"), table)
