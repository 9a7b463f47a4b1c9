# Test seams for encryption.

def probe_seal_keys(str text):
    """Puts keys (`id:hex,id:hex`) in place, as Core does; "" takes them away."""
    seal_close(&seal_python)
    seal_ring_load(text)

def probe_seal_state(str queue, str key, bytes payload):
    """How opening ended: opened, plain, no_key or broken."""
    cdef bytes name = queue.encode()
    cdef bytes id = (key or "").encode()
    cdef Slice text = slice_of(payload, len(payload))
    return ("opened", "plain", "no_key",
            "broken")[seal_open(&seal_python, slice_of(name, len(name)), slice_of(id, len(id)), &text)]
