# Test seam for ephemeral queues that nobody uses.

def probe_ephemeral_idle(long long ahead_us):
    """Forgets unused names as if so much time had passed. Requires a running core."""
    cdef EphPop* wake = NULL
    cdef int i
    cdef int64_t now = clock_mono_us() + ahead_us
    with nogil:
        for i in range(EPH_STRIPES):
            stripe_sweep(&eph_stripes[i], now, &wake)
        ephjob_send(NULL, wake)
