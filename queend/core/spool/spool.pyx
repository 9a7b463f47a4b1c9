# The failover buffer: pushes on disk while the database is unavailable. In: push items; gathered records. Out: records
# in bytes (format: docs/failover.md), and items whose slices point into them; segments (spool/segment), written and
# counted. Owns the list of segments, the partitions with records in them, and their sizes. Owner: the first worker's
# thread; before the threads start, the opening thread. No lock: other threads read `gate` and the counters.

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

# ---- records in bytes ------------------------------------------------------------------------------------------------
# A record is one message, with all fields for the database. Stateless, without I/O or clock.

cdef enum:
    SPOOL_MARK = 0x63655251   # "QRec", little-endian: marks where the next record may begin after damaged bytes
    SPOOL_HEAD = 12           # mark, length of the rest, checksum of length and rest
    SPOOL_LEAST = 28          # bytes of the smallest rest
    SPOOL_V1 = 1

cdef enum SpoolFound:
    SPOOL_RECORD = 0          # an item of `n` bytes
    SPOOL_MORE = 1            # the record continues after these bytes; it needs `n`
    SPOOL_DAMAGED = 2         # `n` bytes without a record; a record or the end follows

cdef void spool_record_put(Buf* b, PushItem* it, int64_t now_us) noexcept nogil:
    # Appends one record. If b.failed is set afterwards, memory ran out and the appended bytes are invalid.
    cdef size_t at = b.len
    cdef Extras x
    pushitem_extras(it, &x)
    buf_reserve(b, SPOOL_HEAD)
    buf_byte(b, SPOOL_V1)
    buf_put(b, it.id, 16)
    buf_le64(b, <uint64_t>now_us)
    spool_record_text(b, it.queue)
    spool_record_text(b, it.part)
    buf_byte(b, <char>(x.trace.n + x.sub.n + x.text.n + x.due.n + x.seal.n + x.headers.n != 0))
    batchrow_extras_put(b, 0, &x)
    buf_slice(b, it.payload)
    if b.failed:
        return
    le32_put(b.data + at, SPOOL_MARK)
    le32_put(b.data + at + 4, <uint32_t>(b.len - at - SPOOL_HEAD))
    le32_put(b.data + at + 8, spool_record_sum(b.data + at, b.len - at - SPOOL_HEAD))

cdef inline void spool_record_text(Buf* b, Slice s) noexcept nogil:
    buf_varint(b, s.n)
    buf_slice(b, s)

cdef inline uint32_t spool_record_sum(const char* record, size_t n) noexcept nogil:
    return crc32c(crc32c(0, record + 4, 4), record + SPOOL_HEAD, n)

cdef inline bint spool_record_whole(const char* p, size_t have) noexcept nogil:
    # Returns True if p begins with a complete, undamaged record.
    cdef size_t n
    if have < SPOOL_HEAD or le32(p) != SPOOL_MARK:
        return False
    n = le32(p + 4)
    return SPOOL_LEAST <= n <= have - SPOOL_HEAD and spool_record_sum(p, n) == le32(p + 8)

cdef int spool_record_next(const char* p, size_t have, size_t left, PushItem* it, Extras* x, int64_t* at_us,
                           size_t* n) noexcept nogil:
    # Reads the record at p. `have` bytes are in memory, `left` (at least as many) in the file. Returns SpoolFound;
    # overwrites it.
    cdef size_t rest, i
    if have >= SPOOL_HEAD and le32(p) == SPOOL_MARK:
        rest = le32(p + 4)
        if SPOOL_LEAST <= rest <= left - SPOOL_HEAD:
            n[0] = SPOOL_HEAD + rest
            if n[0] > have:
                return SPOOL_MORE
            if spool_record_sum(p, rest) == le32(p + 8) and spool_record_take(p + SPOOL_HEAD, rest, it, x, at_us):
                return SPOOL_RECORD
    elif have < SPOOL_HEAD and have < left:
        n[0] = SPOOL_HEAD
        return SPOOL_MORE
    # Damaged: ends at the next place where a record is complete, or may begin.
    i = 1
    while i < have:
        if p[i] == 0x51 and (have - i < 4 or le32(p + i) == SPOOL_MARK):
            if spool_record_whole(p + i, have - i) or (have < left and spool_record_cut(p + i, have - i, left - i)):
                break
        i += 1
    n[0] = i
    return SPOOL_DAMAGED

cdef inline bint spool_record_cut(const char* p, size_t have, size_t left) noexcept nogil:
    # Returns True if a record may begin here whose end is not in memory.
    cdef size_t rest
    if have < SPOOL_HEAD:
        return True
    rest = le32(p + 4)
    return SPOOL_LEAST <= rest <= left - SPOOL_HEAD and rest > have - SPOOL_HEAD

cdef inline bint spool_record_read_text(const char** p, const char* end, Slice* out) noexcept nogil:
    cdef uint64_t n
    p[0] = <const char*>batchrow_varint(<const unsigned char*>p[0], <const unsigned char*>end, &n)
    if p[0] == NULL or n > <uint64_t>(end - p[0]):
        return False
    out[0] = slice_of(p[0], n)
    p[0] += n
    return True

cdef bint spool_record_take(const char* p, size_t n, PushItem* it, Extras* x, int64_t* at_us) noexcept nogil:
    # Reads the rest of a record whose checksum is valid. Returns False for an unknown version or unknown extras.
    cdef const char* end = p + n
    memset(it, 0, sizeof(PushItem))
    batchrow_extras_none(x)
    if p[0] != <char>SPOOL_V1:
        return False
    memcpy(it.id, p + 1, 16)
    # Ids made by the daemon are looked up in the database like all others: the record may have been stored before.
    it.id_kind = ID_V7 if it.id[6] >> 4 == 7 else ID_OTHER
    at_us[0] = <int64_t>le64(p + 17)
    p += 25
    if not spool_record_read_text(&p, end, &it.queue) or not spool_record_read_text(&p, end, &it.part) or p >= end:
        return False
    if p[0]:
        # one byte, the place (0), then the extras as in a row of the log
        if end - p < 3 or <uint8_t>p[2] >> EXTRAS_KNOWN:
            return False
        p = <const char*>batchrow_extras_read(<const unsigned char*>p + 2, <const unsigned char*>end, x)
        if p == NULL:
            return False
        if x.trace.n:
            memcpy(it.trace, x.trace.p, 16)
            it.has_trace = 1
        it.sub = x.sub
        it.txid = x.text
        it.keep_text = x.text.n != 0
    else:
        p += 1
    it.payload = slice_of(p, end - p)
    return True
