# Autopilot: how much a pop takes that leaves it to the daemon. In: claims, and deliveries that came back
# (memory/unacked); how many partitions are ready and how many pops wait. Out: most messages and most partitions of a
# pop. Owns nothing: struct Handling of a group has the means. Locks: book.lock guards it. No I/O in here.

cdef enum:
    PILOT_BATCH_LEAST = 100
    PILOT_BATCH_MOST = 1000
    PILOT_HOLD_US = 1000000   # time for a batch of more than the least
    PILOT_SOON_US = 20000     # partitions handled within this time need not be shared with others
    PILOT_PARTS = 8           # slower consumers get one part in so many of what is ready
    PILOT_UNSEEN = 16         # most partitions while nothing was acknowledged yet
    PILOT_PARTITIONS = 64     # most partitions it chooses

# ---- how consumers handle messages -----------------------------------------------------------------------------------
# Handling has two means: the messages of a partition when it was claimed, and the time for a message from its delivery
# to its acknowledgment.

cdef inline double autopilot_mean(double before, double now) noexcept nogil:
    return now if before == 0 else before + (now - before) / 8

cdef inline void autopilot_claimed(Handling* h, int n) noexcept nogil:
    # Counts a claim of n messages of one partition.
    h.claimed = autopilot_mean(h.claimed, n)

cdef inline void autopilot_done(Handling* h, int64_t took_us, int n) noexcept nogil:
    # Counts n messages of one delivery that came back after so long: acknowledged, or because their lease expired.
    if n > 0:
        h.message_us = autopilot_mean(h.message_us, max(<double>took_us, 1) / n)

# ---- how much a pop takes --------------------------------------------------------------------------------------------
# If partitions have few messages each, a pop takes many of them: they share its request, its statement and its commit.
# If one partition has a batch, the pop takes that one. Slow consumers get what they handle in PILOT_SOON_US (20 ms), or
# their part of what is ready.

cdef int autopilot_batch(const Handling* h, int64_t lease_us) noexcept nogil:
    # Returns how many messages are handled in PILOT_HOLD_US (1 s), at most those that fit half of the lease.
    cdef double n
    if h.message_us == 0:
        return AUTOPILOT_BATCH
    n = min(max(PILOT_HOLD_US / h.message_us, <double>PILOT_BATCH_LEAST), <double>PILOT_BATCH_MOST)
    return <int>max(min(n, lease_us / 2 / h.message_us), 1)

cdef int autopilot_soon(const Handling* h) noexcept nogil:
    # Returns how many partitions a consumer handles in PILOT_SOON_US (20 ms); 0 if that is unknown or less than one.
    if h.message_us == 0 or h.claimed == 0:
        return 0
    return <int>min(PILOT_SOON_US / (h.message_us * h.claimed), <double>PILOT_PARTITIONS)

cdef int autopilot_fills(const Handling* h, int batch) noexcept nogil:
    # Returns how many partitions fill a batch.
    cdef double n = batch / max(h.claimed, 1)
    return <int>min(max(n, 1), <double>PILOT_PARTITIONS)

cdef int autopilot_width(const Handling* h, int batch, int ready, int waiting) noexcept nogil:
    # Returns how many of the ready partitions a pop takes while so many other pops wait.
    cdef int share = ready // (waiting + 1)
    if h.message_us == 0:
        share = min(share, PILOT_UNSEEN)
    else:
        share = max(ready // max(waiting + 1, PILOT_PARTS), autopilot_soon(h))
    return max(min(share, autopilot_fills(h, batch)), 1)
