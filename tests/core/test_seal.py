"""Sealing beside an independent implementation, known answers, and everything that may be wrong with an envelope."""
import base64
import json
import random

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as some

from queend._core import probe_seal_keys, probe_seal_state, seal_envelope, seal_opened, seal_payload

KEY, OTHER = bytes(range(32)), bytes(range(32, 64))
BOUND = b"queend seal 1:"
# key 00 01 … 1f, IV a0 a1 … af, made with another implementation: (payload, bound to, ciphertext, tag)
KNOWN = [
    (b'{"n":1}', b"queend seal 1:orders", "51814d9e22fcb0", "cd52318d42b0f278e1fab2032ab4d1d7"),
    (b'{"n":1}', None, "51814d9e22fcb0", "d62f01ab794faa4ac2a900c97459c0ce"),
    ('"é, sixteen and more bytes"'.encode(), b"queend seal 1:caf\xc3\xa9",
     "08608a9038bea40eb7fb7adfcd75e3f4a2282c0b1b1433d589771994", "a87605fe05a009c3c1ddf1af938b1045"),
]


@pytest.fixture(autouse=True)
def keys():
    probe_seal_keys(f"a:{KEY.hex()},b:{OTHER.hex()}")
    yield
    probe_seal_keys("")


def envelope(iv: bytes, text: bytes, tag: bytes) -> bytes:
    return json.dumps({name: base64.b64encode(value).decode()
                       for name, value in (("encrypted", text), ("iv", iv), ("authTag", tag))}).encode()


def parts(raw: bytes) -> tuple[bytes, bytes, bytes]:
    members = json.loads(raw)
    assert list(members) == ["encrypted", "iv", "authTag"]
    text, iv, tag = (base64.b64decode(one, validate=True) for one in members.values())
    assert (len(iv), len(tag)) == (16, 16)
    return iv, text, tag


@pytest.mark.parametrize("payload, bound, text, tag", KNOWN)
def test_known_answers(payload, bound, text, tag):
    raw = envelope(bytes(range(0xa0, 0xb0)), bytes.fromhex(text), bytes.fromhex(tag))
    assert AESGCM(KEY).decrypt(bytes(range(0xa0, 0xb0)), bytes.fromhex(text + tag), bound) == payload
    if bound:
        assert seal_opened(bound.removeprefix(BOUND).decode(), "a", raw) == payload
        assert seal_opened("another", "a", raw) is None
    else:
        assert seal_opened("whatever", None, raw) == payload
        assert seal_opened("whatever", "a", raw) is None


@given(some.text(max_size=300), some.text(max_size=60))
def test_both_open_what_the_other_sealed(text, queue):
    payload = json.dumps(text).encode()
    raw, key = seal_payload(queue, payload)
    iv, sealed, tag = parts(raw)
    assert key == "a" and AESGCM(KEY).decrypt(iv, sealed + tag, BOUND + queue.encode()) == payload
    theirs = AESGCM(OTHER).encrypt(iv, payload, BOUND + queue.encode())
    assert seal_opened(queue, "b", envelope(iv, theirs[:-16], theirs[-16:])) == payload


@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17, 6143, 6144, 6145, 12287, 12288, 12289, 1 << 20, 5_000_003])
def test_sizes_at_which_chunks_and_groups_end(size):
    payload = random.Random(size).randbytes(size)
    raw, key = seal_payload("q", payload)
    iv, sealed, tag = parts(raw)
    assert AESGCM(KEY).decrypt(iv, sealed + tag, BOUND + b"q") == payload and seal_opened("q", key, raw) == payload


def test_no_iv_comes_twice():
    assert len({parts(seal_payload("q", b"1")[0])[0] for _ in range(5000)}) == 5000


def test_any_change_is_found():
    raw, key = seal_payload("q", b'{"amount":10}')
    iv, text, tag = parts(raw)
    for place in range(len(iv + text + tag) * 8):
        changed = bytearray(iv + text + tag)
        changed[place // 8] ^= 1 << place % 8
        bad = envelope(bytes(changed[:16]), bytes(changed[16:-16]), bytes(changed[-16:]))
        assert seal_opened("q", key, bad) is None and probe_seal_state("q", key, bad) == "broken"
    assert probe_seal_state("r", key, raw) == "broken"
    assert seal_opened("q", key, raw) == b'{"amount":10}'


@pytest.mark.parametrize("spell", [
    lambda e: {"iv": e["iv"], "authTag": e["authTag"], "encrypted": e["encrypted"]},
    lambda e: json.loads(json.dumps(e, indent=2)),
])
def test_members_in_any_order(spell):
    iv = bytes(16)
    theirs = AESGCM(OTHER).encrypt(iv, b'{"of":"another"}', None)
    raw = json.dumps(spell(json.loads(envelope(iv, theirs[:-16], theirs[-16:]))), indent=1).encode()
    assert seal_opened("q", None, raw) == b'{"of":"another"}' and seal_envelope(raw)


@pytest.mark.parametrize("change", [
    lambda e: e | {"more": 1}, lambda e: {k: v for k, v in e.items() if k != "iv"}, lambda e: e | {"iv": e["iv"][:-4]},
    lambda e: e | {"iv": 7},
    lambda e: e | {"authTag": e["authTag"] + "AAAA"}, lambda e: e | {"authTag": "!" * 22 + "=="},
    lambda e: e | {"encrypted": ""}, lambda e: e | {"encrypted": "AAA"},
    lambda e: [e], lambda e: "text", lambda e: 7, lambda e: {},
])
def test_what_is_no_envelope_is_plain(change):
    theirs = AESGCM(KEY).encrypt(bytes(16), b"1", None)
    raw = json.dumps(change(json.loads(envelope(bytes(16), theirs[:-16], theirs[-16:])))).encode()
    assert probe_seal_state("q", None, raw) == "plain" and not seal_envelope(raw) and seal_opened("q", "a", raw) is None


@pytest.mark.parametrize("text", ["!!!!", "AA==AAAA", "A A A A ", "====", "AAAAA==="])
def test_bad_base64_is_not_opened(text):
    raw = json.dumps({"encrypted": text, "iv": base64.b64encode(bytes(16)).decode(),
                      "authTag": base64.b64encode(bytes(16)).decode()}).encode()
    assert seal_opened("q", "a", raw) is None and seal_opened("q", None, raw) is None


def test_what_another_program_sealed_must_be_json():
    theirs = AESGCM(KEY).encrypt(bytes(16), b'1],"x":[', None)
    assert seal_opened("q", None, envelope(bytes(16), theirs[:-16], theirs[-16:])) is None


def test_keys_in_turn():
    first, key = seal_payload("q", b'"old"')
    probe_seal_keys(f"b:{OTHER.hex()},a:{KEY.hex()}")
    second, other = seal_payload("q", b'"new"')
    assert (key, other) == ("a", "b")
    assert seal_opened("q", "a", first) == b'"old"' and seal_opened("q", "b", second) == b'"new"'
    probe_seal_keys(f"renamed:{KEY.hex()}")
    assert seal_opened("q", "a", first) == b'"old"'
    assert seal_opened("q", "b", second) is None and probe_seal_state("q", "b", second) == "no_key"
    probe_seal_keys(f"a:{OTHER.hex()},b:{KEY.hex()}")
    assert seal_opened("q", "a", first) == b'"old"'
    probe_seal_keys("")
    assert seal_opened("q", "a", first) is None and probe_seal_state("q", None, first) == "no_key"
    with pytest.raises(LookupError):
        seal_payload("q", b"1")


@pytest.mark.parametrize("text", ["a:00", "a", ":" + "00" * 32, "é:" + "00" * 32, "x" * 33 + ":" + "00" * 32,
                                  ",".join(f"k{n}:{n:064x}" for n in range(17))])
def test_keys_that_are_none(text):
    with pytest.raises(ValueError, match="seal_keys") as caught:
        probe_seal_keys(text)
    assert "00" * 8 not in str(caught.value)


def test_a_damaged_envelope_is_told_without_its_content(capfd):
    raw, key = seal_payload("q", b'"secret"')
    probe_seal_keys(f"b:{OTHER.hex()}")
    assert seal_opened("q", key, raw) is None
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(one["level"], one["event"], one["detail"]) for one in lines] == [
        ("error", "envelope_not_opened", "queue q, key 'a': its key is not here; given as it is stored")]
    assert seal_opened("q", key, raw) is None and not capfd.readouterr().err


def test_the_other_implementation_finds_changes_too():
    raw, _ = seal_payload("q", b"1")
    iv, text, tag = parts(raw)
    with pytest.raises(InvalidTag):
        AESGCM(KEY).decrypt(iv, text + tag, BOUND + b"r")
