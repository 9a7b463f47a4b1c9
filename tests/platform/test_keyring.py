"""Keys of encrypted queues: where they come from, what is refused, and that nobody is shown one."""
from __future__ import annotations

import pytest
from support.command import command

from queend.daemon.core_settings import core_settings
from queend.settings.keyring import key_id, keyring
from queend.settings.load import load
from queend.settings.messages import ConfigError

A, B, C = "aa" * 32, "Bb" * 32, "0c" * 32
IDS = key_id(bytes.fromhex(C))


@pytest.fixture(autouse=True)
def none_given(monkeypatch):
    for name in ("QUEEN_ENCRYPTION_KEY", "QUEEND_ENCRYPTION_KEYS", "QUEEND_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def ring(monkeypatch, one: str = "", many: str = "") -> list[tuple[str, str]]:
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", one)
    monkeypatch.setenv("QUEEND_ENCRYPTION_KEYS", many)
    return [(name, key.hex()) for name, key in keyring(load())]


def test_the_first_seals_and_the_single_one_comes_last(monkeypatch):
    assert ring(monkeypatch) == []
    assert ring(monkeypatch, C) == [(IDS, C)]
    assert ring(monkeypatch, "", f"a:{A},b.2:{B}") == [("a", A), ("b.2", B.lower())]
    assert ring(monkeypatch, C, f"a:{A}, b:{B} ") == [("a", A), ("b", B.lower()), (IDS, C)]
    assert ring(monkeypatch, C, f"{IDS}:{C},a:{A}") == [(IDS, C), ("a", A)]
    flat = core_settings(load())
    assert flat["seal_keys"] == f"{IDS}:{C},a:{A}"


def test_an_id_tells_nothing_and_stays():
    assert key_id(bytes(32)) == "2c1f8c90"
    assert key_id(bytes(32)) != key_id(bytes(31) + b"\1")


def test_a_file_has_a_key_per_line(monkeypatch, tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# this year's\nnew:{A}\n\n  old : {B}   # until June\n")
    assert ring(monkeypatch, "", str(file)) == [("new", A), ("old", B.lower())]


@pytest.mark.parametrize("one, many, words", [
    ("abc", "", "QUEEN_ENCRYPTION_KEY: the key must have 64 hexadecimal digits"),
    ("zz" * 32, "", "QUEEN_ENCRYPTION_KEY: the key must have 64 hexadecimal digits"),
    (A + "00", "", "QUEEN_ENCRYPTION_KEY: the key must have 64 hexadecimal digits"),
    ("", f"a:{A},b", "key 2 is invalid; expected an id"),
    ("", f"a b:{A}", "key 1 is invalid; expected an id"), ("", A, "key 1 is invalid; expected an id"),
    ("", f"a:{A[1:]}", "key 1 is invalid; expected an id"),
    ("", f"a:{A},a:{B}", "key 2 repeats the id of an earlier key"), ("", ",", "there are no keys in the value"),
    ("", "/no/such/file", "/no/such/file: No such file"),
    ("", "/", "/: Is a directory"), ("", ",".join(f"k{n}:{n:064x}" for n in range(17)), "the maximum is 16 keys"),
    (C, ",".join(f"k{n}:{n:064x}" for n in range(16)), "the maximum is 16 keys"),
])
def test_a_wrong_key_stops_the_daemon_and_is_not_shown(monkeypatch, one, many, words):
    with pytest.raises(ConfigError) as caught:
        ring(monkeypatch, one, many)
    told = str(caught.value)
    assert words in told and told.startswith(("QUEEN_ENCRYPTION_KEY: ", "QUEEND_ENCRYPTION_KEYS: "))
    assert "aaaaaaaa" not in told and "bbbbbbbb" not in told.lower()


@pytest.mark.parametrize("text, words", [("", "no keys in the value"), ("# nothing\n", "no keys in the value"),
                                         (f"a:{A}\nb:{A[:5]}\n", "key in the file 2"),
                                         ("é", "not ASCII text"), (f"a:{A}\n" * 2000, "larger than 65536 bytes")])
def test_a_wrong_file(monkeypatch, tmp_path, text, words):
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        ring(monkeypatch, "", str(file))
    assert "aaaaaaaa" not in str(caught.value)


def test_command_config_masks_keys():
    done = command("config", QUEEN_ENCRYPTION_KEY=A, QUEEND_ENCRYPTION_KEYS=f"b:{B}")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["QUEEN_ENCRYPTION_KEY"] == lines["QUEEND_ENCRYPTION_KEYS"] == ["********"]
    assert A not in done.stdout and B not in done.stdout


def test_command_serve_ends_without_showing_it():
    done = command("serve", QUEEN_ENCRYPTION_KEY=A[1:])
    assert done.returncode == 2 and done.stderr.startswith("queend: QUEEN_ENCRYPTION_KEY: ")
    assert "aaaa" not in done.stderr
