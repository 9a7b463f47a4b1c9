# The failover buffer as its owner sees it: the first worker's thread, and before the threads start the one that opens
# it. It knows the segments, which partitions have records in them, and how much there is. Others read `gate` and the
# figures.

cdef enum SpoolGate:
    GATE_OPEN = 0             # pushes go to the database
    GATE_SOME = 1             # those of partitions with records in the buffer wait behind them
    GATE_SHUT = 2             # all go into the buffer

cdef enum:
    SPOOL_WINDOW = 1 << 20    # bytes read at once
    SPOOL_SEGMENT = 64 << 20  # a segment that is larger is not written to any more

cdef struct SpoolSegment:
    SpoolSegment* next
    uint64_t number
    int64_t size              # bytes that are kept
    int64_t records           # as far as they are not drained

cdef struct SpoolScan:
    # What a file holds.
    int64_t records
    int64_t pieces            # that are no record
    bint damaged              # it ends in one
    int64_t good              # behind the last record that is whole
    int64_t since_us          # when its first record was taken

cdef struct Spool:
    SharedFlag on
    SharedInt gate
    SharedFlag paused               # push maintenance
    SharedFlag doubt                # a push had no answer in time: the database may hang
    int dir_fd
    int64_t limit             # bytes
    int per_file              # records of a segment
    int chunk                 # records drained at once
    int64_t pause_us          # between two tries to drain
    SpoolSegment* first       # the oldest
    SpoolSegment* last
    SpoolSegment* spare       # for the next file: what is written is counted without asking for memory
    int fd                    # of the last, for writing; -1: the next write begins another
    uint64_t number           # of the newest segment there ever was
    Table waiting             # partition key → records in the buffer (as a pointer)
    uint64_t seed
    SpoolWrite write
    bint writing
    Buf gather                # the next write
    int64_t gather_records
    Job* gather_first
    Job* gather_last
    SpoolStep step
    bint stepping
    int64_t at                # in the first segment: what comes next
    SharedInt64 pending         # records kept and not drained
    SharedInt64 bytes           # of all segments
    SharedInt64 failed          # records and pieces in the quarantine
    SharedInt64 oldest_us       # wall clock: since when the next record waits
    SharedInt64 taken           # records ever taken
    SharedInt64 drained
    SharedFlag trouble              # the last write failed

cdef Spool spool

cdef void spool_open(const char* dir, int64_t limit, int per_file, int chunk, int pause_ms, char* reason,
                     size_t size) noexcept nogil:
    # dir exists and is ours alone. reason stays empty, or says why it cannot be used. The segments are added next, in
    # order.
    cdef UuidGen g
    memset(&spool, 0, sizeof(Spool))
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
    table_init(&spool.waiting)
    uuidgen_open(&g)
    spool.seed = g.state
    spool.gate = GATE_SHUT    # until the engine knows better

cdef void spool_close() noexcept nogil:
    # After the threads have ended.
    cdef SpoolSegment* s = spool.first
    cdef SpoolSegment* following
    if not spool.on:
        return
    while s != NULL:
        following = s.next
        free(s)
        s = following
    if spool.fd >= 0:
        close(spool.fd)
    if spool.step.fd >= 0:
        close(spool.step.fd)
    close(spool.dir_fd)
    free(spool.spare)
    buf_free(&spool.gather)
    buf_free(&spool.write.bytes)
    buf_free(&spool.step.bytes)
    buf_free(&spool.step.bad)
    table_free(&spool.waiting)
    memset(&spool, 0, sizeof(Spool))

# ---- which partitions have records in it -----------------------------------------------------------------------------

cdef inline int64_t spool_waits(Slice queue, Slice part) noexcept nogil:
    return <int64_t><uintptr_t>table_get(&spool.waiting, spool_key(queue, part, spool.seed))

cdef bint spool_count(Slice queue, Slice part, int64_t by) noexcept nogil:
    # False when memory ran out.
    cdef uint64_t key = spool_key(queue, part, spool.seed)
    cdef int64_t n = <int64_t><uintptr_t>table_get(&spool.waiting, key) + by
    if n <= 0:
        table_del(&spool.waiting, key)
        return True
    return table_put(&spool.waiting, key, <void*><uintptr_t>n)

# ---- segments --------------------------------------------------------------------------------------------------------

cdef SpoolSegment* segment_add(uint64_t number) noexcept nogil:
    # The spare one, or NULL when memory ran out.
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

cdef void segment_drop() noexcept nogil:
    # The first is drained: it goes with the next step.
    cdef SpoolSegment* s = spool.first
    spool.step.drop = True
    spool.step.drop_number = s.number
    spool.step.note = False
    if spool.step.fd >= 0:
        close(spool.step.fd)
        spool.step.fd = -1
    if s == spool.last:
        spool.last = NULL
        if spool.fd >= 0:
            close(spool.fd)
            spool.fd = -1
    spool.first = s.next
    spool.at = SEGMENT_HEAD
    spool.bytes -= s.size
    free(s)

cdef int spool_recover(uint64_t number, char* reason, size_t size) noexcept nogil:
    # Before the threads start, oldest first: reads a whole segment, counts its records, cuts a torn end. errno, 0:
    # done.
    cdef char[25] name
    cdef SpoolSegment* s
    cdef int fd
    cdef int error
    segment_name(number, name)
    fd = openat(spool.dir_fd, name, O_RDWR | O_CLOEXEC)
    if fd < 0:
        error = errno
    else:
        error = segment_recover(fd, number)
        close(fd)
    if error:
        snprintf(reason, size, b"failover buffer, %s: %s", name, strerror(error))
    return error

cdef int spool_scan(int fd, int64_t at, int64_t end, bint counted, SpoolScan* out) noexcept nogil:
    # Reads records from `at` up to the end. counted: they count for their partitions.
    cdef Buf b
    cdef PushItem it
    cdef Extras x
    cdef size_t p, n, have
    cdef size_t want = SPOOL_WINDOW
    cdef int64_t since
    cdef int found
    cdef int error = 0
    memset(out, 0, sizeof(SpoolScan))
    out.good = at
    buf_init(&b)
    while at < end and not error:
        have = want if <int64_t>want < end - at else <size_t>(end - at)
        buf_clear(&b)
        if buf_reserve(&b, have) == NULL:
            error = ENOMEM
            break
        error = file_read(fd, b.data, have, at)
        want = SPOOL_WINDOW
        p = 0
        while p < have and not error:
            found = spool_next(b.data + p, have - p, <size_t>(end - at) - p, &it, &x, &since, &n)
            if found == SPOOL_MORE:
                if p == 0:
                    want = n
                break
            p += n
            if found == SPOOL_DAMAGED:
                out.pieces += not out.damaged      # one may be longer than a window
                out.damaged = True
                continue
            out.damaged = False
            out.good = at + <int64_t>p
            out.records += 1
            if out.records == 1:
                out.since_us = since
            if counted and not spool_count(it.queue, it.part, 1):
                error = ENOMEM
        at += <int64_t>p
    buf_free(&b)
    return error

cdef int segment_recover(int fd, uint64_t number) noexcept nogil:
    cdef int64_t end = lseek(fd, 0, SEEK_END)
    cdef int64_t at = SEGMENT_HEAD
    cdef int64_t noted_at = 0
    cdef uint64_t noted = 0
    cdef SpoolSegment* s
    cdef SpoolScan scan
    cdef int error
    if position_read(spool.dir_fd, &noted, &noted_at) and noted == number and SEGMENT_HEAD <= noted_at <= end:
        at = noted_at
    if end < SEGMENT_HEAD:
        end = at = SEGMENT_HEAD        # it was being made
    s = segment_add(number)
    if s == NULL:
        return ENOMEM
    if spool.first == s:
        spool.at = at
    error = spool_scan(fd, at, end, True, &scan)
    if not error and scan.good < end:
        error = segment_cut(fd, scan.good, end)
        end = scan.good
    if spool.pending == 0:
        spool.oldest_us = scan.since_us
    s.size = end
    s.records = scan.records
    spool.pending += s.records
    spool.bytes += end
    return error

cdef int spool_adopt(const char* dir, uint64_t number) noexcept nogil:
    # A segment of a daemon that is gone becomes ours, while we have none: whoever asks has locked its folder. Done when
    # it is away from there. errno, 0: done. It blocks as a start does: the whole segment is read.
    cdef char[25] name
    cdef char[25] named
    cdef uint64_t noted = 0
    cdef int64_t at = 0
    cdef uint64_t wall = <uint64_t>clock_wall_us()
    cdef int error = 0
    cdef int fd
    cdef int from_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if from_fd < 0:
        return errno
    spool.number = wall if wall > spool.number else spool.number + 1
    segment_name(number, name)
    segment_name(spool.number, named)
    # what of it is in the database already is noted here first
    if position_read(from_fd, &noted, &at) and noted == number:
        error = position_write(spool.dir_fd, spool.number, at)
    if error == 0 and renameat(from_fd, name, spool.dir_fd, named) != 0:
        error = errno
    if error == 0 and (fsync(spool.dir_fd) != 0 or fsync(from_fd) != 0):
        # it is ours all the same: which folder has it after a crash is not known, one of the two
        error = errno
    close(from_fd)
    fd = openat(spool.dir_fd, named, O_RDWR | O_CLOEXEC)
    if fd < 0:
        return error if error else errno
    error = segment_recover(fd, spool.number)
    close(fd)
    return error

cdef int quarantine_recover() noexcept nogil:
    # What earlier runs could not store counts on. Before the segments: what is cut off them is counted then. errno, 0:
    # done.
    cdef SpoolScan scan
    cdef int64_t end
    cdef int error = 0
    cdef int fd = openat(spool.dir_fd, b"quarantine", O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return 0 if errno == ENOENT else errno
    end = lseek(fd, 0, SEEK_END)
    if end > SEGMENT_HEAD:
        error = spool_scan(fd, SEGMENT_HEAD, end, False, &scan)
        spool.failed = scan.records + scan.pieces
    close(fd)
    return error

cdef int segment_cut(int fd, int64_t good, int64_t end) noexcept nogil:
    # What stands behind the last whole record was being written when the machine or the daemon stopped, and nobody was
    # told that it is kept; or it was damaged later. A copy of it stays.
    cdef Buf b
    cdef char[64] text
    cdef int error
    buf_init(&b)
    if buf_reserve(&b, <size_t>(end - good)) == NULL:
        return ENOMEM
    error = file_read(fd, b.data, b.len, good)
    if error == 0:
        error = quarantine_add(spool.dir_fd, &b)
    buf_free(&b)
    if error == 0 and (ftruncate(fd, good) != 0 or fdatasync(fd) != 0):
        error = errno
    if error == 0:
        spool.failed += 1
        snprintf(text, sizeof(text), b"%lld bytes", <long long>(end - good))
        log_line(b"warn", b"buffer_end_cut", text)
    return error

# ---- writing ---------------------------------------------------------------------------------------------------------

cdef inline bint spool_room(size_t more) noexcept nogil:
    cdef int64_t flying = <int64_t>spool.write.bytes.len if spool.writing else 0
    return spool.bytes + <int64_t>(spool.gather.len + more) + flying <= spool.limit

cdef void spool_write_begin(uv_loop_t* loop, uv_after_work_cb done) noexcept nogil:
    # Everything gathered, in one write and one fsync; what comes meanwhile shares the next. Nothing is under way.
    cdef SpoolWrite* t = &spool.write
    cdef Buf empty = t.bytes
    t.bytes = spool.gather
    spool.gather = empty
    buf_clear(&spool.gather)
    t.records = spool.gather_records
    t.jobs = spool.gather_first
    spool.gather_records = 0
    spool.gather_first = NULL
    spool.gather_last = NULL
    if spool.fd >= 0 and (spool.last.size >= SPOOL_SEGMENT or spool.last.records >= spool.per_file):
        close(spool.fd)
        spool.fd = -1
    t.dir_fd = spool.dir_fd
    t.fd = spool.fd
    if t.fd < 0:
        # by the clock, so that a number never comes again when all segments are gone and the daemon starts anew
        spool.number = <uint64_t>clock_wall_us() if <uint64_t>clock_wall_us() > spool.number else spool.number + 1
        t.number = spool.number
    else:
        t.number = spool.last.number
        t.at = spool.last.size
    t.work.data = t
    spool.writing = True
    if t.fd < 0 and spool.spare == NULL:
        spool.spare = <SpoolSegment*>calloc(1, sizeof(SpoolSegment))
    if t.fd < 0 and spool.spare == NULL:
        t.error = ENOMEM      # before the file is made: what it holds must be counted
        done(&t.work, 0)
    elif uv_queue_work(loop, &t.work, spool_write_run, done) != 0:
        t.error = EIO
        done(&t.work, 0)

cdef void spool_write_end() noexcept nogil:
    # Its outcome is in spool.write.error.
    cdef SpoolWrite* t = &spool.write
    cdef bint fresh = spool.fd < 0
    spool.writing = False
    spool.fd = t.fd
    if t.error == 0:
        if fresh:
            segment_add(t.number)
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

cdef inline bint spill_hurries() noexcept nogil:
    # Nobody waits for a database that is away when there is a buffer.
    return spool.on and spool.gate == GATE_SHUT
