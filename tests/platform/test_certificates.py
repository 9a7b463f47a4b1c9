"""Files of certificates that cannot be used stop the daemon, with the name of the setting, the file and the reason."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority

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
    (lambda a: pair(a, queend_tls_client_required=True), "QUEEND_TLS_CLIENT_REQUIRED requires QUEEND_TLS_CLIENT_CA"),
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
    with pytest.raises(ConfigError) as error:
        load(**faulty(authority))
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


def test_without_a_certificate() -> None:
    assert certificates(load()) is None and load().scheme() == "http"
