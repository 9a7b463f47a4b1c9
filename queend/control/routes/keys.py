"""/api/v1/resources/kv: namespaces of keys, and the rows of one, for people who look. Keys are read and written through
the data plane (/api/v1/kv)."""
from __future__ import annotations

import re
from typing import Any

from fastapi import Request

from ...auth.levels import READ, READS
from ...auth.permits import fits
from ..database import rows
from ..http.answer import Json, Refusal, is_whole
from ..http.body import body_object
from ..http.moments import ts3
from ..http.query import Query
from ..http.rights import limits
from ..http.route import Paged, Routes
from ..http.schema import FLAG, INTEGER, MAYBE, NAME, SOME_TIME, TEXT, TIME, array, body, parameter, record, whole
from .record import embedded

router = Routes("keys")
NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
KEY_BYTES = 512
COUNT_MOST = 10_000        # largest count of a namespace's keys
PAGE_BYTES = 4 << 20       # of values
LOOKS = 100_000            # rows that a page passes over

NAMESPACES = "SELECT * FROM queend.kv_namespaces(%s, %s, %s)"
ROWS = "SELECT * FROM queend.kv_rows(%s, %s, %s, %s, %s, %s, %s, %s)"


def _permits(request: Request, namespace: str) -> bool:
    """Returns whether the token may read the keys of a namespace. Follows grant_allows_kv of the core: only a pattern
    that begins with `kv:` gives a right to keys."""
    rules, name = limits(request), namespace.encode()
    return rules is None or any(verbs & READS and groups is None and pattern[:3] == b"kv:" and len(pattern) > 3
                                and fits(pattern[3:], name) for pattern, verbs, groups in rules)


@router.declare("GET /api/v1/resources/kv/namespaces", READ, whole(
    namespaces=array(whole(namespace=TEXT, keys=INTEGER)), nextAfter=MAYBE),
    [parameter("after", NAME, "namespace after which the list begins")], where="itself", own=True,
    page=Paged(100, 1000, far=0, least=1))
async def key_namespaces(request: Request) -> Json:
    """Lists the namespaces that have keys, by name. `keys` counts up to 10 000 rows of each. `nextAfter` is null on the
    last page."""
    query = Query(request)
    limit = query.whole("limit", 100, 1, 1000)
    found = await rows(request, NAMESPACES, query.text("after"), limit + 1, COUNT_MOST)
    return Json({"namespaces": [{"namespace": one.ns, "keys": one.keys} for one in found[:limit]
                                if _permits(request, one.ns)],
                 "nextAfter": found[limit - 1].ns if len(found) > limit else None})


@router.declare("POST /api/v1/resources/kv/list", READ, whole(
    namespace=TEXT, rows=array(record(["key", "version", "expired", "bytes"], key=TEXT, value={}, version=INTEGER,
                                      expiresAt=SOME_TIME, updatedAt=TIME, expired=FLAG, bytes=INTEGER)),
    truncated=FLAG, nextAfter=MAYBE), where="itself", own=True,
    body=body(record(["namespace"], namespace=TEXT, prefix=TEXT, after=MAYBE,
                     limit={**INTEGER, "minimum": 1, "maximum": 1000, "default": 100}, keysOnly=FLAG,
                     includeExpired=FLAG)), example={"namespace": "shop", "prefix": "cart-", "limit": 10})
async def key_list(request: Request) -> Json:
    """Lists the keys of a namespace, by key. `bytes` are those of a row's value. A page has values of at most 4 MiB
    together; `truncated` says that there are others, which follow after `nextAfter`."""
    wanted = await body_object(request, strict=True)
    namespace = wanted.get("namespace")
    if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
        raise Refusal(400, "namespace must match ^[a-z0-9][a-z0-9._-]{0,63}$", "kv_bad_namespace")
    if not _permits(request, namespace):
        raise Refusal(403, f'Insufficient permissions: the token lacks read for "kv:{namespace}"', "forbidden")
    limit = 100 if wanted.get("limit") is None else wanted["limit"]
    if not is_whole(limit) or not 1 <= limit <= 1000:
        raise Refusal(400, "limit must be a whole number from 1 to 1000", "invalid_request")
    page = await rows(request, ROWS, namespace, _key(wanted, "prefix") or "", _key(wanted, "after"), limit, PAGE_BYTES,
                      _flag(wanted, "keysOnly"), _flag(wanted, "includeExpired"), LOOKS)
    more = bool(page) and (page[-1].key is None or page[-1].version is None)
    after = (page[-1].key or page[-2].key) if more else None
    return Json({"namespace": namespace, "rows": [_row(one) for one in page[:-1 if more else None]],
                 "truncated": more, "nextAfter": after})


def _row(one: Any) -> dict[str, Any]:
    return {"key": one.key, **({} if one.value is None else {"value": embedded(one.value)}), "version": one.version,
            "expiresAt": None if one.expires_at == 2**63 - 1 else ts3(one.expires_at),
            "updatedAt": ts3(one.updated_at), "expired": one.expired, "bytes": one.bytes}


def _key(wanted: dict[str, Any], name: str) -> str | None:
    value = wanted.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value or len(value.encode(errors="surrogatepass")) > KEY_BYTES:
        raise Refusal(400, f"{name} must be text of at most {KEY_BYTES} bytes without NUL", "kv_bad_key")
    return value


def _flag(wanted: dict[str, Any], name: str) -> bool:
    value = wanted.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(400, f"{name} must be true or false", "invalid_request")
    return bool(value)
