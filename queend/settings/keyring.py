"""The keys of encrypted queues, from the settings: the first one seals, all open (docs/encryption.md)."""
from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Settings

KEYS_MOST = 16
FILE_MOST = 65_536      # bytes
ID = re.compile(r"[A-Za-z0-9._-]{1,32}")
HEX = re.compile(r"[0-9A-Fa-f]{64}")


def key_id(key: bytes) -> str:
    """Returns the id of a key that was given without one: 8 digits of a digest, which reveal nothing of the key."""
    return hashlib.sha256(b"queend key id:" + key).hexdigest()[:8]


def keyring(settings: Settings) -> list[tuple[str, bytes]]:
    """Returns (id, 32 bytes) per key: those of QUEEND_ENCRYPTION_KEYS in their order, then QUEEN_ENCRYPTION_KEY. Raises
    ValueError, naming the setting and the place of the faulty key, never its text."""
    keys = _listed(settings.queend_encryption_keys.strip())
    if one := settings.queen_encryption_key.strip():
        if not HEX.fullmatch(one):
            raise ValueError("QUEEN_ENCRYPTION_KEY: the key must have 64 hexadecimal digits")
        key = bytes.fromhex(one)
        if key_id(key) not in dict(keys):
            keys.append((key_id(key), key))
    if len(keys) > KEYS_MOST:
        raise ValueError(f"QUEEND_ENCRYPTION_KEYS: the maximum is {KEYS_MOST} keys")
    return keys


def _listed(text: str) -> list[tuple[str, bytes]]:
    place, given = "key", bool(text)
    if text.startswith("/"):
        try:
            with Path(text).open("rb") as file:
                raw = file.read(FILE_MOST + 1)
            if len(raw) > FILE_MOST:
                raise ValueError(f"QUEEND_ENCRYPTION_KEYS: {text} is larger than {FILE_MOST} bytes")
            text = "\n".join(line.partition("#")[0] for line in raw.decode("ascii").splitlines())
        except OSError as error:
            raise ValueError(f"QUEEND_ENCRYPTION_KEYS: {text}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"QUEEND_ENCRYPTION_KEYS: {text} is not ASCII text") from None
        place = "key in the file"
    keys: dict[str, bytes] = {}
    for number, one in enumerate(filter(None, (part.strip() for part in re.split(r"[,\n]", text))), 1):
        name, _, key = (word.strip() for word in one.partition(":"))
        if not ID.fullmatch(name) or not HEX.fullmatch(key):
            raise ValueError(f"QUEEND_ENCRYPTION_KEYS: {place} {number} is invalid; expected an id (1 to 32 letters, "
                             "digits, '.', '_', '-'), ':' and 64 hexadecimal digits")
        if name in keys:
            raise ValueError(f"QUEEND_ENCRYPTION_KEYS: {place} {number} repeats the id of an earlier key")
        keys[name] = bytes.fromhex(key)
    if given and not keys:
        raise ValueError("QUEEND_ENCRYPTION_KEYS: there are no keys in the value")
    return list(keys.items())
