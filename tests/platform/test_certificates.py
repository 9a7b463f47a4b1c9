"""Files of certificates that cannot be used stop the daemon, with the name of the setting, the file and the reason."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority

from queend import log
from queend.services.secured import Secured
from queend.settings.certificates import FILE_MOST, certificates
from queend.settings.load import load
from queend.settings.messages import ConfigError

Faulty = Callable[[Authority], dict[str, Any]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def pair(authority: Authority, **more: Any) -> dict[str, Any]:
    made = authority.server()
    return {"queend_tls_cert": made.cert, "queend_tls_key": made.key, **more}


def written(authority: Authority, text: bytes) -> Path:
    path = authority.folder / "file"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("faulty, told", [
    (lambda a: {"queend_tls_cert": a.file}, "QUEEND_TLS_CERT requires QUEEND_TLS_KEY"),
    (lambda a: {"queend_tls_key": a.file}, "QUEEND_TLS_KEY requires QUEEND_TLS_CERT"),
    (lambda a: {"queend_tls_client_ca": a.file}, "QUEEND_TLS_CLIENT_CA requires QUEEND_TLS_CERT and QUEEND_TLS_KEY"),
    (lambda a: pair(a, queend_tls_client_required=True), "QUEEND_TLS_CLIENT_REQUIRED requires QUEEND_TLS_CLIENT_CA")])
def test_settings_that_lack_another_one_are_told(authority: Authority, faulty: Faulty, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(**faulty(authority))
    assert str(error.value) == told


@pytest.mark.parametrize("faulty, told", [
    (lambda a: pair(a, queend_tls_cert="/no/such.pem"), "QUEEND_TLS_CERT: /no/such.pem: No such file or directory"),
    (lambda a: pair(a, queend_tls_key=a.folder), "QUEEND_TLS_KEY: {folder}: Is a directory"),
    (lambda a: pair(a, queend_tls_cert=written(a, b"no PEM")),
     "QUEEND_TLS_CERT: {folder}/file has no certificates in PEM format, or a malformed one"),
    (lambda a: pair(a, queend_tls_cert=a.pair.key),
     "QUEEND_TLS_CERT: {folder}/ca.key has no certificates in PEM format, or a malformed one"),
    (lambda a: pair(a, queend_tls_key=a.file),
     "QUEEND_TLS_KEY: {folder}/ca.pem has no private key in PEM format, or a malformed one"),
    (lambda a: pair(a, queend_tls_key=a.server("locked").encrypted_key(b"secret")),
     "QUEEND_TLS_KEY: the key in {folder}/locked.locked is protected by a password; expected one without"),
    (lambda a: pair(a, queend_tls_key=a.pair.key),
     "QUEEND_TLS_KEY: the key in {folder}/ca.key does not belong to the first certificate in {folder}/server.pem"),
    (lambda a: pair(a, queend_tls_client_ca=written(a, b"")),
     "QUEEND_TLS_CLIENT_CA: {folder}/file has no certificates in PEM format, or a malformed one"),
    (lambda a: pair(a, queend_tls_cert=written(a, b"x" * (FILE_MOST + 1))),
     "QUEEND_TLS_CERT: {folder}/file is larger than 65536 bytes")])
def test_what_cannot_be_used_is_told(authority: Authority, faulty: Faulty, told: str) -> None:
    """The settings themselves are good: commands of accounts that may not read the key check them, too."""
    settings = load(**faulty(authority))
    with pytest.raises(ValueError) as error:
        certificates(settings)
    assert str(error.value) == told.format(folder=authority.folder)


@pytest.mark.parametrize("bits", [0, 2048])
def test_what_can_be_used(authority: Authority, bits: int) -> None:
    made = authority.server(rsa_bits=bits)
    settings = load(queend_tls_cert=made.cert, queend_tls_key=made.key, queend_tls_client_ca=authority.file)
    found = certificates(settings)
    assert found and settings.scheme() == "https" and not found.trouble()
    assert (found.certificate, found.key, found.authorities) == (
        made.cert.read_bytes(), made.key.read_bytes(), authority.file.read_bytes())


@pytest.mark.parametrize("days, told", [((-9, -1), "it expired at "), ((1, 9), "it is not valid before "),
                                        ((-9, 3), "it expires at "), ((-9, 20), "")])
def test_times_of_a_certificate(authority: Authority, days: tuple[float, float], told: str) -> None:
    made = authority.server(days=days)
    found = certificates(load(queend_tls_cert=made.cert, queend_tls_key=made.key))
    assert found and found.trouble().startswith(told) and bool(found.trouble()) == bool(told)


class Core:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def secure(self, certificate: bytes, key: bytes, authorities: bytes, required: bool) -> None:
        self.given.append(certificate)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(log, "line", lambda level, event, *_, **__: found.append(event))
    return found


def test_files_that_changed_are_used(authority: Authority, lines: list[str]) -> None:
    made, core = authority.server(), Core()
    secured = Secured(load(queend_tls_cert=made.cert, queend_tls_key=made.key), core)
    assert secured.expires_s() is None
    secured.use()
    secured.look()
    assert len(core.given) == 1 and 89 < secured.expires_s() / 86400 < 90      # type: ignore[operator]
    renewed = authority.server(days=(-1, 10))
    secured.look()
    secured.look()
    assert core.given[1:] == [renewed.cert.read_bytes()] and lines == ["certificate_trouble", "certificate_renewed"]
    assert 9 < secured.expires_s() / 86400 < 10      # type: ignore[operator]


def test_files_that_are_not_usable_are_told_once_and_read_when_they_change_again(authority: Authority,
                                                                                 lines: list[str]) -> None:
    made, core = authority.server(), Core()
    secured = Secured(load(queend_tls_cert=made.cert, queend_tls_key=made.key), core)
    secured.use()
    other = authority.server("other")
    made.cert.write_bytes(other.cert.read_bytes())      # its key comes later
    secured.look()
    secured.look()
    assert lines == ["certificate_refused"] and len(core.given) == 1
    made.key.write_bytes(other.key.read_bytes())
    secured.look()
    assert lines[1:] == ["certificate_renewed"] and core.given[1:] == [other.cert.read_bytes()]


def test_a_day_brings_new_keys_of_tickets_and_the_warning_again(authority: Authority, lines: list[str],
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    made, core = authority.server(days=(-1, 3)), Core()
    secured = Secured(load(queend_tls_cert=made.cert, queend_tls_key=made.key), core)
    secured.use()
    monkeypatch.setattr("queend.services.secured.DAY_S", 0.0)
    secured.look()
    assert len(core.given) == 2 and lines == ["certificate_trouble"] * 2


def test_without_a_certificate() -> None:
    assert certificates(load()) is None and load().scheme() == "http"
