# How much a pop takes that leaves it to the daemon (`autopilot`). In: what was seen of the group's consumers, in its
# `handling` (memory/unacked): messages that a partition had when it was claimed, and how long a message took from its
# delivery to its acknowledgment. Out: most messages and most partitions. Pure: what is ready and who waits comes in;
# the book's lock guards what was seen.
#
# Where partitions have few messages each, a pop takes many of them: its request, its statement and its commit are
# shared, and no message waits for its partition's turn. Where one partition has a batch, it takes that one. Consumers
# that take long get what they can do in a moment, or their part of what is ready: the rest is for the others.

cdef enum:
    PILOT_BATCH_LEAST = 100
    PILOT_BATCH_MOST = 1000
    PILOT_HOLD_US = 1000000   # so long a batch may take, if it has the least
    PILOT_SOON_US = 20000     # what takes no longer need not be shared with others
    PILOT_PARTS = 8           # of what is ready, where consumers take longer
    PILOT_UNSEEN = 16         # partitions, where nothing was acknowledged yet
    PILOT_PARTITIONS = 64     # most partitions it chooses

cdef int pilot_batch(const Handling* h, int64_t lease_us) noexcept nogil:
    # What can be done in a second; but no more than fits half of the lease.
    cdef double n
    if h.message_us == 0:
        return AUTOPILOT_BATCH
    n = min(max(PILOT_HOLD_US / h.message_us, <double>PILOT_BATCH_LEAST), <double>PILOT_BATCH_MOST)
    return <int>max(min(n, lease_us / 2 / h.message_us), 1)

cdef int pilot_soon(const Handling* h) noexcept nogil:
    # Partitions that a consumer is done with in a moment, 0: none, or not known.
    if h.message_us == 0 or h.claimed == 0:
        return 0
    return <int>min(PILOT_SOON_US / (h.message_us * h.claimed), <double>PILOT_PARTITIONS)

cdef int pilot_fills(const Handling* h, int batch) noexcept nogil:
    # Partitions that fill a batch.
    cdef double n = batch / max(h.claimed, 1)
    return <int>min(max(n, 1), <double>PILOT_PARTITIONS)

cdef int pilot_width(const Handling* h, int batch, int ready, int waiting) noexcept nogil:
    # Of so many partitions that are ready, while so many others wait.
    cdef int share = ready // (waiting + 1)
    if h.message_us == 0:
        share = min(share, PILOT_UNSEEN)
    else:
        share = max(ready // max(waiting + 1, PILOT_PARTS), pilot_soon(h))
    return max(min(share, pilot_fills(h, batch)), 1)
