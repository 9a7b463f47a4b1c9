"""Tokens of every algorithm, and everything that must not pass for one."""
from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.tokens import SECRET, b64, ed_key, jwk, pem, rsa_key, sign, token

from queend.auth.keys import BadKey, key_of_jwk
from queend.auth.refused import Refused
from queend.auth.token import Grant, Verifier
from queend.settings.load import load
from queend.settings.messages import ConfigError

ADMIN, WRITE, READ = 3, 2, 1


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in ("PORT", "HOST"):
        monkeypatch.delenv(name, raising=False)


def settings(**values: Any):
    return load(jwt_enabled=True,
                **{f"jwt_{name}" if not name.startswith("queend_") else name: value for name, value in values.items()})


def verify(text: str | bytes, **values: Any) -> Grant:
    verifier = Verifier(settings(**{"secret": SECRET, **values}), lambda: None)
    return asyncio.run(verifier.verify(text.encode() if isinstance(text, str) else text))


def refused(text: str | bytes, **values: Any) -> str:
    with pytest.raises(Refused) as told:
        verify(text, **values)
    assert told.value.status == 401
    return told.value.error


# ---- what passes -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("configured", ["exact", "auto"])
@pytest.mark.parametrize("algorithm, key, values", [
    ("HS256", SECRET, {"secret": SECRET}), ("EdDSA", ed_key(), {"secret": "", "public_key": pem(ed_key())}),
    ("RS256", rsa_key(), {"secret": "", "public_key": pem(rsa_key())}),
    ("RS384", rsa_key(), {"secret": "", "public_key": pem(rsa_key())}),
    ("RS512", rsa_key(), {"secret": "", "public_key": pem(rsa_key()).replace("\n", "\\n")}),
])
def test_a_good_token_passes(configured, algorithm, key, values):
    named = "auto" if configured == "auto" else "RS256" if algorithm.startswith("RS") else algorithm
    grant = verify(token(algorithm, key, sub="svc", role="admin", exp=60), algorithm=named, **values)
    assert (grant.level, grant.subject, grant.rules) == (ADMIN, "svc", None)


@pytest.mark.parametrize("claims, level", [
    ({"role": "admin"}, ADMIN), ({"role": "read-write"}, WRITE), ({"role": "read-only"}, READ),
    ({"role": "none"}, 0), ({}, 0),
    ({"roles": ["x", "read-only"]}, READ), ({"roles": ["read-only", "admin"]}, ADMIN),
    ({"role": "read-only", "roles": ["read-write"]}, WRITE),
    ({"role": ["admin"]}, 0), ({"roles": "admin"}, 0), ({"role": 1, "roles": [None, 2, {"admin": 1}]}, 0),
])
def test_roles(claims, level):
    assert verify(token(**claims)).level == level


def test_names_of_roles_and_claims_are_configurable():
    values = {"role_admin": "root", "roles_claim": "r", "roles_array_claim": "groups"}
    assert verify(token(r="root"), **values).level == ADMIN
    assert verify(token(groups=["root"]), **values).level == ADMIN
    assert verify(token(role="admin"), **values).level == 0


def test_times_are_checked_with_skew():
    assert verify(token(exp=-20, nbf=20, iat=20)).level == 0
    assert "Token has expired" in refused(token(exp=-40))
    assert "Token is not valid yet" in refused(token(nbf=40))
    assert "Token is not valid yet" in refused(token(iat=40))
    assert "Token has expired" in refused(token(exp=-1), clock_skew=0)


def test_a_grant_ends_with_its_token():
    import time
    assert abs(verify(token(exp=100)).expires_us / 1e6 - time.time() - 130) < 5
    assert verify(token(exp=None), require_exp=False).expires_us == 1 << 62


def test_a_token_without_an_end_is_refused():
    assert refused(token(exp=None)) == "Token verification failed: Token has no exp, which JWT_REQUIRE_EXP requires"


def test_issuer_and_audience_only_where_set():
    assert verify(token(iss="x", aud="y")).level == 0
    both = {"issuer": "https://id", "audience": "queues"}
    assert verify(token(iss="https://id", aud="queues"), **both).level == 0
    assert verify(token(iss="https://id", aud=["other", "queues"]), **both).level == 0
    for claims in ({}, {"iss": "other"}, {"iss": ["https://id"]}):
        assert refused(token(aud="queues", **claims), **both).startswith("Token verification failed")
    for claims in ({}, {"aud": "other"}, {"aud": []}, {"aud": {"queues": 1}}):
        assert refused(token(iss="https://id", **claims), **both).startswith("Token verification failed")


CLAIMED = [     # claims, and what is said of them
    ({"iss": None}, "Token has no iss, which JWT_ISSUER requires"),
    ({"aud": None}, "Token has no aud, which JWT_AUDIENCE requires"),
    ({"aud": []}, "Token has no aud, which JWT_AUDIENCE requires"),
    ({"iss": "other"}, "Invalid token issuer: iss must be the text that JWT_ISSUER names"),
    ({"iss": ["https://id"]}, "Invalid token issuer: iss must be the text that JWT_ISSUER names"),
    ({"aud": "other"}, "Invalid token audience: aud must be or contain the text that JWT_AUDIENCE names"),
    ({"aud": {"a": 1}}, "Invalid token audience: aud must be or contain the text that JWT_AUDIENCE names"),
    ({"exp": "soon"}, "exp must be a number of seconds since 1970"),
    ({"exp": None}, "Token has no exp, which JWT_REQUIRE_EXP requires"),
    ({"nbf": "soon"}, "nbf must be a number of seconds since 1970"),
    ({"nbf": 900}, "Token is not valid yet"),
    ({"iat": [1]}, "iat must be a number of seconds since 1970"),
    ({"iat": 900}, "Token is not valid yet: its iat is in the future"),
    ({"sub": 0}, "sub must be a text of at most 255 bytes"),
    ({"sub": 7}, "sub must be a text of at most 255 bytes"),
    ({"sub": "x" * 256}, "sub must be a text of at most 255 bytes"),
    ({"queues": None}, "Claim queues must be an object of at most 256 queue patterns"),
    ({"queues": ["orders"]}, "Claim queues must be an object of at most 256 queue patterns"),
]


@pytest.mark.parametrize("wrong, why", CLAIMED, ids=lambda value: json.dumps(value) if isinstance(value, dict) else "")
def test_a_refusal_names_the_claim(wrong, why):
    claims = {"iss": "https://id", "aud": "queues", "sub": "svc", **wrong}
    for claim in ("iss", "aud"):
        if claims[claim] is None:
            del claims[claim]
    assert refused(token(**claims), issuer="https://id", audience="queues", queend_jwt_queues_claim="queues") == (
        f"Token verification failed: {why}")


def test_queues_that_are_required_need_a_claim_with_a_name():
    with pytest.raises(ConfigError, match="JWT_REQUIRE_QUEUES requires QUEEND_JWT_QUEUES_CLAIM"):
        settings(secret=SECRET, require_queues=True)


def test_an_empty_limit_and_an_empty_role_grant_nothing():
    assert verify(token(queues={}), queend_jwt_queues_claim="queues").rules == []
    assert verify(token(role=""), role_admin="").level == 0


# ---- what does not ---------------------------------------------------------------------------------------------------

def test_a_wrong_signature():
    assert (refused(token(key="another secret, of the same length or so"))
            == "Token verification failed: Invalid token signature")
    good = token(role="read-only")
    head, claims, signature = good.split(".")
    other = b64(json.dumps({"role": "admin"}).encode())
    assert "signature" in refused(f"{head}.{other}.{signature}")
    assert "signature" in refused(f"{head}.{claims}.")


def test_none_is_no_algorithm():
    for name in ("none", "None", "NONE", "nOnE"):
        unsigned = token(name, None, role="admin")
        assert refused(unsigned) == f"Token uses {name}, expected HS256"
        assert refused(unsigned, algorithm="auto") == f"Unsupported algorithm: {name}"
        assert refused(unsigned.rsplit(".", 1)[0] + "." + b64(b"x"),
                       algorithm="auto") == f"Unsupported algorithm: {name}"


def test_a_public_key_is_no_secret():
    """The token of one who knows the public key, as everybody does, and signs with it as if it were a secret."""
    public = pem(rsa_key())
    forged = token("HS256", public, role="admin")
    for algorithm in ("RS256", "auto"):
        assert refused(forged, algorithm=algorithm, secret="",
                       public_key=public) in ("Token uses HS256, expected RS256", "Unsupported algorithm: HS256")
    with pytest.raises(ConfigError, match="JWT_SECRET"):
        settings(secret=public)
    raw = token("EdDSA", ed_key("other"), role="admin")
    assert "signature" in refused(raw, algorithm="auto", secret="", public_key=pem(ed_key()))


def test_an_algorithm_of_another_key():
    assert refused(token("RS256", rsa_key())) == "Token uses RS256, expected HS256"
    assert refused(token("HS512", SECRET), algorithm="auto") == "Unsupported algorithm: HS512"
    assert refused(token("PS256", SECRET), algorithm="auto") == "Unsupported algorithm: PS256"
    # what it says back is never more than the name of an algorithm
    assert refused(token("<script>alert(1)</script>", SECRET)) == "Token uses another algorithm, expected HS256"
    assert refused(token("HS256", header={"alg": ["HS256"]})) == "Token uses another algorithm, expected HS256"
    assert refused(token("HS256", header={"alg": None})) == "Token uses another algorithm, expected HS256"


@pytest.mark.parametrize("text", [
    b"x", b"..", b"a.b", b"a.b.c.d", b"\xff\xfe", b"\0", b"eyJ.eyJ.x", b"[]", f"{b64(b'[]')}.{b64(b'{}')}.x".encode(),
    f"{b64(b'1')}.{b64(b'{}')}.".encode(), b"." * 10_000, f"{b64(b'{' * 9000)}.a.b".encode(),
])
def test_what_is_no_token(text):
    assert refused(text).startswith("Token decode error: ")


def test_a_token_has_a_largest_size():
    assert refused(token(role="admin", more="x" * 20_000)) == "Token decode error: more than 16384 bytes"


def signed(head: bytes, claims: bytes) -> str:
    text = f"{b64(head)}.{b64(claims)}"
    return f"{text}.{b64(sign('HS256', SECRET, text.encode()))}"


@pytest.mark.parametrize("claims", [
    b"[]", b"1", b"null", b"{", b'{"exp":"soon"}', b'{"exp":Infinity}', b'{"exp":{}}', b'{"nbf":[]}', b'{"exp":1e400}',
    b'{"sub":1}', b'{"sub":["a"]}',
    b'{"iat":"x"}', b'{"sub":"' + b"x" * 256 + b'"}', b'{"sub":"a\\u0000b"}', b'{"sub":"\\ud800"}', b"[" * 3000,
])
def test_claims_that_are_none(claims):
    error = refused(signed(b'{"alg":"HS256"}', claims))
    assert error.startswith(("Token verification failed: ", "Token decode error: "))


def test_what_a_header_calls_critical_is_not_passed_over():
    assert refused(token(role="admin", header={"crit": ["exp"]})).startswith("Token")
    assert refused(token(role="admin", header={"crit": ["b64"], "b64": False})).startswith("Token")


# ---- queue permissions -----------------------------------------------------------------------------------------------

def test_queue_permissions_become_rules():
    values = {"queend_jwt_queues_claim": "queues"}
    grant = verify(token(queues={"orders.*": ["push", "pop"], "audit": "read", "*": "manage", "all": "*"}), **values)
    assert grant.rules == [(b"orders.*", 3, None), (b"audit", 4, None), (b"*", 8, None), (b"all", 15, None)]
    assert verify(token(queues={}), **values).rules == []
    assert verify(token(), **values).rules is None
    assert verify(token(role="admin"), require_queues=True, **values).rules == []
    assert verify(token(queues={"*": "*"}), require_queues=True, **values).rules == [(b"*", 15, None)]
    assert verify(token(queues={"x": "push"})).rules is None     # no claim is one unless the operator names it


@pytest.mark.parametrize("claim", [[], "orders", 1, True, {"a": "write"}, {"a": ["push", 1]}, {"a": None},
                                   {"x" * 256: "push"}, {f"q{i}": "push" for i in range(257)}])
def test_a_malformed_claim_refuses_the_token(claim):
    assert "Claim queues" in refused(token(role="admin", queues=claim), queend_jwt_queues_claim="queues")


# ---- keys and settings -----------------------------------------------------------------------------------------------

def test_keys_of_a_set():
    assert key_of_jwk(jwk(rsa_key(), "a")).algorithm == "RS256"
    assert key_of_jwk(jwk(ed_key(), "b", alg="EdDSA", use="sig")).algorithm == "EdDSA"


@pytest.mark.parametrize("member", [
    None, 1, [], {}, {"kty": "RSA"}, {"kty": "RSA", "n": "", "e": ""}, {"kty": "oct", "k": "eA"},
    {"kty": "EC", "crv": "P-256", "x": "a", "y": "b"},
    {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, {"kty": "OKP", "crv": "X25519", "x": b64(b"x" * 32)},
    {**jwk(rsa_key()), "use": "enc"},
    {**jwk(rsa_key()), "alg": "HS256"}, {**jwk(rsa_key()), "alg": "EdDSA"}, {**jwk(rsa_key()), "kid": 7},
    {**jwk(rsa_key()), "key_ops": ["sign"]}, {**jwk(rsa_key()), "key_ops": None}, {**jwk(rsa_key()), "key_ops": 5},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB"}, {**jwk(rsa_key()), "n": 5}, jwk(rsa_key("small", 1024)),
])
def test_keys_that_are_none(member):
    with pytest.raises(BadKey):
        key_of_jwk(member)


@pytest.mark.parametrize("values, name", [
    ({}, "JWT_SECRET"), ({"algorithm": "RS256"}, "JWT_PUBLIC_KEY"), ({"algorithm": "EdDSA"}, "JWT_PUBLIC_KEY"),
    ({"algorithm": "auto"}, "JWT_ALGORITHM"),
    ({"algorithm": "none"}, "JWT_ALGORITHM"), ({"algorithm": "RS256", "public_key": "x"}, "JWT_PUBLIC_KEY"),
    ({"algorithm": "RS256", "public_key": pem(ed_key())}, "JWT_PUBLIC_KEY"),
    ({"algorithm": "EdDSA", "public_key": pem(rsa_key())}, "JWT_PUBLIC_KEY"),
    ({"algorithm": "RS256", "public_key": pem(rsa_key("small", 1024))}, "JWT_PUBLIC_KEY"),
    *(({"algorithm": "RS256", "jwks_url": url}, "JWT_JWKS_URL") for url in (
        "http://id.example/keys", "id.example", "https://", "https://user:word@id.example/keys",
        "https://id.example/a b", "https://id.example:99999/", "file:///etc/passwd")),
])
def test_settings_that_would_leave_it_open_are_refused(values, name):
    with pytest.raises(ConfigError, match=name):
        settings(**values)
