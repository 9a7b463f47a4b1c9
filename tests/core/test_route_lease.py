"""Lease extensions."""
import json
import uuid

import pytest

from queend._core import probe_lease, probe_lease_reply, ProbeRefused

LEASE = "0192f0c1-2222-7abc-9def-000000000002"
PATH = f"/api/v1/lease/{LEASE}/extend".encode()


@pytest.mark.parametrize("body, seconds", [
    (b"", 60), (b" ", 60), (b"{}", 60), (b"[]", 60), (b" [ ] ", 60), (b"null", 60), (b'{"seconds":null}', 60),
    (b'{"x":1}', 60), (b'{"seconds":1}', 1), (b'{"seconds": 31536000 }', 31536000), (b'{"\\u0073econds":5}', 5)])
def test_bodies(body, seconds):
    assert probe_lease(PATH, body) == (uuid.UUID(LEASE).bytes, seconds)


@pytest.mark.parametrize("body", [b'{"seconds":%s}' % s for s in (b"0", b"-10", b'"60"', b"1.5", b"1e2", b"true", b"[]",
                                                                  b"31536001", b"99999999999999999999")])
def test_seconds_are_a_whole_number(body):
    with pytest.raises(ProbeRefused, match="seconds must be a whole number between 1 and 31536000"):
        probe_lease(PATH, body)


@pytest.mark.parametrize("body", [b"5", b'"x"', b"[1]", b"true"])
def test_other_bodies(body):
    with pytest.raises(ProbeRefused, match="The body must be an object"):
        probe_lease(PATH, body)


@pytest.mark.parametrize("body", [b"{", b"{}}", b'{"seconds":}', b"[", b"nul", b'{"seconds":60'])
def test_malformed(body):
    with pytest.raises(ProbeRefused, match="Invalid JSON"):
        probe_lease(PATH, body)


def test_what_is_no_lease_is_not_found():
    assert probe_lease(b"/api/v1/lease/a%22bc/extend", b"")[0] == bytes(16)
    assert json.loads(probe_lease_reply(b"/api/v1/lease/a%22bc/extend", 1))["leaseId"] == 'a"bc'
    with pytest.raises(ProbeRefused, match="lease id"):
        probe_lease(b"/api/v1/lease/%ff/extend", b"")


def test_answers():
    assert json.loads(probe_lease_reply(PATH, 0, 1767323045678901, 2)) == {
        "leaseId": LEASE, "success": True, "error": None, "renewed": 2} | dict.fromkeys(
        ("expiresAt", "newExpiresAt", "lease_expires_at"), "2026-01-02T03:04:05.678Z")
    for status, error in ((1, "Lease not found"), (2, "Lease already expired")):
        assert json.loads(probe_lease_reply(PATH, status)) == {
            "leaseId": LEASE, "success": False, "error": error, "renewed": 0, "expiresAt": None, "newExpiresAt": None,
            "lease_expires_at": None}
