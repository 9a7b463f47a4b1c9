# Bounds what all clients take together: descriptors, and memory for incomplete requests and answers that clients have
# not taken. Owns `budget`, one for the process. budget.lock guards the addresses and the bounds; the counts are atomic.
# They are touched when a connection opens or closes, and for requests and answers that do not pass in one piece.

cdef enum:
    BUDGET_TOLD_US = 60000000

cdef Budget budget

cdef void budget_open(Settings* s) noexcept nogil:
    memset(&budget, 0, sizeof(Budget))
    budget.most = s.max_connections
    budget.most_of_one = s.max_per_address
    budget.most_arriving = s.max_arriving
    budget.most_untaken = s.max_untaken
    uv_mutex_init(&budget.lock)
    table_init(&budget.addresses)

cdef void budget_change(int most, int most_of_one) noexcept nogil:
    # Sets how many connections may be open from now on. Open connections stay.
    uv_mutex_lock(&budget.lock)
    budget.most = most
    budget.most_of_one = most_of_one
    uv_mutex_unlock(&budget.lock)

cdef void budget_close() noexcept nogil:
    table_free(&budget.addresses)
    uv_mutex_destroy(&budget.lock)

# -- connections ------------------------------------------------------------------------------------------------------

cdef uint64_t address_key(const sockaddr_storage* address) noexcept nogil:
    # Returns whose connection it is, never 0: an IPv4 address, or the /64 of an IPv6 address, which one client has.
    cdef const unsigned char* b
    cdef uint64_t key = 0
    cdef int i
    if address.ss_family == AF_INET:
        return <uint64_t>1 << 32 | ntohl((<const sockaddr_in*>address).sin_addr.s_addr)
    if address.ss_family != AF_INET6:
        return 1
    b = <const unsigned char*>&(<const sockaddr_in6*>address).sin6_addr
    if memcmp(b, b"\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0:
        return <uint64_t>1 << 32 | <uint64_t>b[12] << 24 | <uint64_t>b[13] << 16 | <uint64_t>b[14] << 8 | b[15]
    for i in range(8):
        key = key << 8 | b[i]
    return key if key else 1

cdef inline int address_port(const sockaddr_storage* address) noexcept nogil:
    # Returns the port, which stands at the same place in both families.
    return ntohs((<const sockaddr_in*>address).sin_port)

cdef int budget_admit(uint64_t from_) noexcept nogil:
    # Counts a new connection. After ADMITTED the caller must call budget_leave when the connection has ended.
    cdef int64_t now
    cdef int64_t n
    cdef int outcome = ADMITTED
    uv_mutex_lock(&budget.lock)
    n = <int64_t>table_get(&budget.addresses, from_)
    if budget.connections >= budget.most:
        outcome = CROWDED
    elif budget.most_of_one and n >= budget.most_of_one:
        outcome = CROWDED_ADDRESS
    elif not table_put(&budget.addresses, from_, <void*>(n + 1)):
        outcome = CROWDED     # out of memory
    if outcome == ADMITTED:
        atomic_add64(&budget.connections, 1)
    else:
        budget.refused += 1
        now = clock_mono_us()
        if budget.told_us == 0 or now - budget.told_us > BUDGET_TOLD_US:
            budget.told_us = now
            log_line(b"warn", b"connection_refused", b"QUEEND_MAX_CONNECTIONS are open" if outcome == CROWDED else
                     b"one address has QUEEND_MAX_CONNECTIONS_PER_ADDRESS open")
    uv_mutex_unlock(&budget.lock)
    return outcome

cdef void budget_leave(uint64_t from_) noexcept nogil:
    cdef int64_t n
    uv_mutex_lock(&budget.lock)
    n = <int64_t>table_get(&budget.addresses, from_)
    if n > 1:
        table_put(&budget.addresses, from_, <void*>(n - 1))
    else:
        table_del(&budget.addresses, from_)
    atomic_add64(&budget.connections, -1)
    uv_mutex_unlock(&budget.lock)

# -- what is incomplete -----------------------------------------------------------------------------------------------

cdef bint budget_take(int64_t more) noexcept nogil:
    # Takes bytes for what arrives. Returns False if the budget is full; for SHORT_MS slow clients are then held to a
    # pace.
    if atomic_add64(&budget.arriving, more) <= budget.most_arriving:
        return True
    atomic_add64(&budget.arriving, -more)
    atomic_set64(&budget.short_ms, clock_mono_us() // 1000)
    return False

cdef inline void budget_give(int64_t bytes) noexcept nogil:
    atomic_add64(&budget.arriving, -bytes)

cdef inline bint budget_short() noexcept nogil:
    # Returns True if a request found the budget full within the last SHORT_MS.
    cdef int64_t at = atomic_get64(&budget.short_ms)
    return at != 0 and clock_mono_us() // 1000 - at < SHORT_MS

cdef enum:
    SHORT_MS = 2000
