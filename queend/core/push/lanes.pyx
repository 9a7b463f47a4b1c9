# Which stream stores a lane's messages. A fixed number of streams is divided among the workers, each has its lanes for good
# (lane mod number) and parts of requests are sent to it. Where the number adapts, all streams belong to the first worker
# and parts are dealt there: who deals and who sends is one thread, so the number changes without a word to anyone.
#
# A change loses no order: what is gathered is closed and goes out as it was dealt; what comes later gathers under the new
# number and waits until all of that is stored. A partition is in one gathering batch at most, always (Partition.open).

cdef enum:
    PUSH_STREAMS_MOST = 8     # where the number adapts

cdef struct Lanes:
    int homes                 # streams that parts are sent to
    int active                # streams among which the only home deals
    bint adapts
    bint moving               # the number changed: batches of before are still out
    Spread spread

cdef Lanes lanes              # homes and adapts never change after the start; the rest belongs to the first worker

cdef void lanes_open(Process* p) noexcept nogil:
    # After the streams.
    cdef int i
    cdef Settings* s = &p.settings
    memset(&lanes, 0, sizeof(Lanes))
    lanes.adapts = s.push_streams == 0
    lanes.homes = 1 if lanes.adapts else n_streams
    lanes.active = 1
    spread_open(&lanes.spread, n_streams, <int64_t>s.push_trial_ms * 1000)
    for i in range(n_streams):
        streams[i].worker = p.workers[0 if lanes.adapts else i % p.n]
        streams[i].side.worker = streams[i].worker

cdef int lanes_streams(Settings* s) noexcept nogil:
    # How many streams there will be: half of the connections are left to everything else.
    if s.push_streams:
        return s.push_streams
    return limit_clamp(s.slots // 2, 1, min(PUSH_STREAMS_MOST, s.types[<int>TYPE_PUSH].max_concurrent))

cdef inline int lanes_of(Worker* w) noexcept nogil:
    # Streams that work in w.
    cdef int workers = w.settings.workers
    if lanes.adapts:
        return lanes.active if w.index == 0 else 0
    return n_streams // workers + (w.index < n_streams % workers)

cdef inline PushStream* lanes_deal(PushStream* home, Partition* p) noexcept nogil:
    return home if not lanes.adapts else &streams[(p.id & (LANES - 1)) % lanes.active]

cdef inline PushStream* lanes_overflow(PushStream* s) noexcept nogil:
    # The stream that keeps the parts that found a batch full.
    if s.main != NULL:
        s = s.main
    return s if not lanes.adapts else &streams[0]

cdef inline bint lanes_wait(PushStream* s) noexcept nogil:
    # Must what s gathers stay for now? What it has to send again never does.
    return s.again == NULL and s.main == NULL and lanes_moving()

cdef inline bint lanes_moving() noexcept nogil:
    return lanes.moving and lanes_unsettled()

cdef bint lanes_unsettled() noexcept nogil:
    cdef int i
    for i in range(n_streams):
        if streams[i].flying != NULL or streams[i].again != NULL:
            return True
    lanes.moving = False
    return False

cdef void lanes_done(PushStream* s, int items, int64_t now) noexcept nogil:
    # A batch of s was stored; s sends its next one after this.
    cdef int n
    if not lanes.adapts or s.main != NULL:
        return
    if lanes.moving:
        lanes.spread.last_us = now
        return
    n = spread_done(&lanes.spread, now, now - s.sent_us, items, s.gather != NULL)
    if n != lanes.active:
        lanes_change(n)

cdef void lanes_change(int n) noexcept nogil:
    cdef int i
    cdef PushStream* s
    for i in range(n_streams):
        s = &streams[i]
        if s.gather != NULL:
            stream_close(s)
    lanes.active = n
    lanes.moving = True
    stream_refill(&streams[0])

cdef void stream_close(PushStream* s) noexcept nogil:
    # What s gathered is a batch to send after those it has to send again.
    cdef PushBatch* b = stream_take(s)
    cdef PushBatch** end = &s.again
    while end[0] != NULL:
        end = &end[0].next
    end[0] = b
    b.since_us = clock_mono_us()
