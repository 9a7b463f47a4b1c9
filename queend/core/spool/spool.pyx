# The failover buffer: pushes on disk while the database is unavailable. In: gathered records. Out: segments
# (spool/segment), written and counted. Owns the list of segments, the partitions with records in them, and their sizes.
# Owner: the first worker's thread; before the threads start, the opening thread. No lock: other threads read `gate` and
# the counters.

cdef enum SpoolGate:
    GATE_OPEN = 0             # pushes go to the database
    GATE_SOME = 1             # pushes to partitions with records in the buffer wait behind these
    GATE_SHUT = 2             # all pushes go into the buffer

cdef enum:
    SPOOL_WINDOW = 1 << 20    # bytes read at once
    SPOOL_SEGMENT = 64 << 20  # a segment of this size or more gets no further writes

cdef struct Spool:
    SharedFlag on
    SharedInt gate
    SharedFlag paused               # push maintenance
    SharedFlag doubt                # a push had no timely answer: the database may hang
    int dir_fd
    int64_t limit             # most bytes
    int per_file              # most records of a segment
    int chunk                 # records drained at once
    int64_t pause_us          # between two attempts to drain
    SpoolSegment* first       # the oldest
    SpoolSegment* last
    SpoolSegment* spare       # for the next file: a finished write is counted without allocating
    int fd                    # of the last segment, for writing; -1: the next write begins a new segment
    uint64_t number           # of the newest segment ever
    Table waiting             # partition key → records in the buffer (as a pointer)
    Table charged             # key of a client's address → bytes it has added (as a pointer) since the buffer was empty
    SpoolWrite write
    bint writing
    Buf gather                # bytes of the next write
    int64_t gather_records
    JobList gather_jobs
    SpoolStep step
    bint stepping
    int64_t at                # offset of the next record in the first segment
    SharedInt64 pending         # records not drained yet
    SharedInt64 bytes           # of all segments
    SharedInt64 failed          # records and pieces in the quarantine
    SharedInt64 oldest_us       # wall clock: since when the next record waits
    SharedInt64 taken           # records ever taken
    SharedInt64 drained
    SharedFlag trouble              # the last write failed

cdef Spool spool

cdef void spool_open(const char* dir, int64_t limit, int per_file, int chunk, int pause_ms, char* reason,
                     size_t size) noexcept nogil:
    # Opens the buffer. Requires that dir exists and that this process alone uses it. reason stays empty, or says why
    # dir cannot be used. The caller then adds the segments, in order.
    memset(&spool, 0, sizeof(Spool))
    joblist_open(&spool.gather_jobs, JOB_BUFFERING)
    spool.fd = -1
    spool.step.fd = -1
    if dir[0] == 0 or limit == 0:
        return
    spool.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if spool.dir_fd < 0:
        snprintf(reason, size, b"FILE_BUFFER_DIR: %s", strerror(errno))
        return
    spool.on = True
    spool.limit = limit
    spool.per_file = per_file
    spool.chunk = chunk
    spool.pause_us = <int64_t>pause_ms * 1000
    spool.number = <uint64_t>clock_wall_us()
    spool.gate = GATE_SHUT    # until the engine sets it

cdef void spool_close() noexcept nogil:
    # Closes the buffer. Requires that the threads have ended.
    if not spool.on:
        return
    spool_free(spool.first)
    spool_free(spool.step.drained)
    segment_close(&spool.fd)
    segment_close(&spool.step.fd)
    segment_close(&spool.dir_fd)
    free(spool.spare)
    buf_free(&spool.gather)
    buf_free(&spool.write.bytes)
    buf_free(&spool.step.bytes)
    buf_free(&spool.step.bad)
    table_free(&spool.waiting)
    table_free(&spool.charged)
    memset(&spool, 0, sizeof(Spool))

cdef void spool_free(SpoolSegment* s) noexcept nogil:
    # Frees a chain of segments.
    cdef SpoolSegment* following
    while s != NULL:
        following = s.next
        free(s)
        s = following

cdef inline bint spool_fails_fast() noexcept nogil:
    # Returns True if pushes do not wait for an unavailable database, because there is a buffer.
    return spool.on and spool.gate == GATE_SHUT

# ---- partitions with records -----------------------------------------------------------------------------------------

cdef bint spool_count(Slice queue, Slice part, int64_t by) noexcept nogil:
    # Changes the count of a partition. Returns False if memory ran out.
    cdef uint64_t key = spool_key(queue, part)
    cdef int64_t n = <int64_t><uintptr_t>table_get(&spool.waiting, key) + by
    if n <= 0:
        table_del(&spool.waiting, key)
        return True
    return table_put(&spool.waiting, key, <void*><uintptr_t>n)

cdef inline uint64_t spool_key(Slice queue, Slice part) noexcept nogil:
    # Returns the key of a partition, from its names; never 0. Partitions with equal keys wait for each other, without
    # other effects.
    cdef uint64_t h = slice_hash(part, slice_hash(queue, hash_seed))
    return h if h else 1

# ---- segments --------------------------------------------------------------------------------------------------------

cdef uint64_t spool_number() noexcept nogil:
    # Returns the number of a new segment. It follows the clock, so numbers stay unique even if all segments are gone at
    # a restart.
    cdef uint64_t wall = <uint64_t>clock_wall_us()
    spool.number = wall if wall > spool.number else spool.number + 1
    return spool.number

cdef SpoolSegment* spool_add(uint64_t number) noexcept nogil:
    # Appends a segment, the spare one if there is one. Returns NULL if memory ran out.
    cdef SpoolSegment* s = spool.spare
    if s == NULL:
        s = <SpoolSegment*>calloc(1, sizeof(SpoolSegment))
    if s == NULL:
        return NULL
    spool.spare = NULL
    s.number = number
    s.size = SEGMENT_HEAD
    if spool.last != NULL:
        spool.last.next = s
    else:
        spool.first = s
        spool.at = SEGMENT_HEAD
    spool.last = s
    if number > spool.number:
        spool.number = number
    return s

cdef void spool_drop() noexcept nogil:
    # Drops the first segment, which is drained; a step deletes its file. Requires that no step is running.
    cdef SpoolSegment* s = spool.first
    cdef SpoolSegment** tail = &spool.step.drained
    while tail[0] != NULL:
        tail = &tail[0].next
    tail[0] = s
    spool.step.note = False
    segment_close(&spool.step.fd)
    if s == spool.last:
        spool.last = NULL
        segment_close(&spool.fd)
    spool.first = s.next
    spool.at = SEGMENT_HEAD
    spool.bytes -= s.size
    s.next = NULL

# ---- writing ---------------------------------------------------------------------------------------------------------

cdef inline int64_t spool_size() noexcept nogil:
    # Returns the bytes of all records, those not yet written included.
    cdef int64_t flying = <int64_t>spool.write.bytes.len if spool.writing else 0
    return spool.bytes + <int64_t>spool.gather.len + flying

cdef void spool_write_begin(uv_loop_t* loop, uv_after_work_cb done) noexcept nogil:
    # Writes all gathered records with one write and one fsync; records gathered meanwhile share the next. Requires that
    # no write is running.
    cdef SpoolWrite* t = &spool.write
    cdef Buf empty = t.bytes
    t.bytes = spool.gather
    spool.gather = empty
    buf_clear(&spool.gather)
    t.records = spool.gather_records
    t.jobs = spool.gather_jobs
    spool.gather_records = 0
    joblist_open(&spool.gather_jobs, JOB_BUFFERING)
    if spool.fd >= 0 and (spool.last.size >= SPOOL_SEGMENT or spool.last.records >= spool.per_file):
        segment_close(&spool.fd)
    t.fd = spool.fd
    if t.fd < 0:
        t.number = spool_number()
    else:
        t.number = spool.last.number
        t.at = spool.last.size
    t.work.data = t
    spool.writing = True
    if t.fd < 0 and spool.spare == NULL:
        spool.spare = <SpoolSegment*>calloc(1, sizeof(SpoolSegment))
    if t.fd < 0 and spool.spare == NULL:
        t.error = ENOMEM      # before the file is created: its content must be counted
        done(&t.work, 0)
    elif uv_queue_work(loop, &t.work, segment_write_run, done) != 0:
        t.error = EIO
        done(&t.work, 0)

cdef void spool_write_end() noexcept nogil:
    # Ends a write; spool.write.error has its outcome.
    cdef SpoolWrite* t = &spool.write
    cdef bint fresh = spool.fd < 0
    spool.writing = False
    spool.fd = t.fd
    if t.error == 0:
        if fresh:
            spool_add(t.number)
            spool.bytes += SEGMENT_HEAD
        spool.last.size += <int64_t>t.bytes.len
        spool.last.records += t.records
        spool.bytes += <int64_t>t.bytes.len
        if spool.pending == 0:
            spool.oldest_us = clock_wall_us()
        spool.pending += t.records
        spool.taken += <uint64_t>t.records
        if spool.trouble:
            log_line(b"info", b"buffer_writes_again", NULL)
        spool.trouble = False
    elif not spool.trouble:
        spool.trouble = True
        log_line(b"error", b"buffer_write_failed", strerror(t.error))
    if t.bytes.cap > 4 * SPOOL_WINDOW:
        buf_free(&t.bytes)
