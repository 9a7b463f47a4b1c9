# What the tests of sealing drive.

def probe_seal_keys(str text):
    """Puts keys (`id:hex,id:hex`) in place, as Core does; "" takes them away."""
    seal_close(&seal_python)
    sealring_load(text)

def probe_seal_state(str queue, str key, bytes payload):
    """How opening ended: opened, plain, no_key or broken."""
    cdef bytes name = queue.encode()
    cdef bytes id = (key or "").encode()
    cdef Slice text = slice_of(payload, len(payload))
    return ("opened", "plain", "no_key",
            "broken")[seal_open(&seal_python, slice_of(name, len(name)), slice_of(id, len(id)), &text)]

def probe_seal_time(bytes payload, int rounds):
    """CPU seconds of this thread for sealing and for opening the payload `rounds` times."""
    cdef Slice queue = slice_lit(b"orders")
    cdef Slice plain = slice_of(payload, len(payload))
    cdef Slice text
    cdef size_t size = seal_size(len(payload))
    cdef char* room = <char*>malloc(size)
    cdef int64_t begin, middle, end
    cdef int i
    cdef bint good = room != NULL
    with nogil:
        begin = probe_cpu_ns()
        for i in range(rounds):
            good = good and seal_write(&seal_python, queue, plain, room)
        middle = probe_cpu_ns()
        for i in range(rounds):
            text = slice_of(room, size)
            good = good and seal_open(&seal_python, queue, sealring_id(0), &text) == SEAL_OPENED
        end = probe_cpu_ns()
    free(room)
    if not good:
        raise ValueError("it was not sealed or not opened")
    return (middle - begin) / 1e9, (end - middle) / 1e9

cdef int64_t probe_cpu_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)
    return t.tv_sec * <int64_t>1000000000 + t.tv_nsec
