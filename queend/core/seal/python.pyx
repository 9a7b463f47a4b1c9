# Seals and opens payloads for the control plane, which is off the hot path. Owns one context, guarded by the GIL.

cdef Seal seal_python

def seal_payload(str queue, bytes payload):
    """The payload (JSON) sealed for this queue: (envelope, id of the key). LookupError when there is no key, ValueError
    for a name no queue has."""
    cdef bytes name = queue.encode()
    cdef bytes out
    if sealring.n == 0:
        raise LookupError("there is no key")
    if len(name) > 255:
        raise ValueError("no queue has such a name")
    out = b" " * seal_size(len(payload))
    if not seal_write(&seal_python, slice_of(name, len(name)), slice_of(payload, len(payload)), <char*>out):
        raise MemoryError()
    return out, sealring.keys[0].id.decode()

def seal_opened(str queue, str key, bytes payload):
    """What an envelope of this queue holds, None where it cannot be opened; a text in place of one that is refused.
    key: the id that stands beside the record; None: sealed by another program, which any of the keys may open."""
    cdef bytes name = queue.encode()
    cdef bytes id = (key or "").encode()
    cdef Slice text = slice_of(payload, len(payload))
    cdef int result = seal_reveal(&seal_python, slice_of(name, len(name)), slice_of(id, len(id)), &text)
    if result != SEAL_OPENED and result != SEAL_REFUSED:
        return None
    return text.p[:text.n]

def seal_envelope(bytes payload):
    """Has it the form of an envelope?"""
    cdef Envelope e
    return bool(envelope_read(slice_of(payload, len(payload)), &e))
