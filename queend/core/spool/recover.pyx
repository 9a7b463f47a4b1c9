# Existing files: segments of an earlier run, a segment of a daemon that is gone, the quarantine. In: a file. Out: its
# records counted, a torn end cut off and kept. All calls block and return errno, 0 on success. They run before the
# threads start, or on the first worker's thread.

cdef struct SpoolScan:
    # The content of a file.
    int64_t records
    int64_t pieces            # pieces without a record
    bint damaged              # it ends with such a piece
    int64_t good              # offset after the last complete record
    int64_t since_us          # when its first record was taken

cdef int spool_recover(uint64_t number, char* reason, size_t size) noexcept nogil:
    # Reads a whole segment, counts its records, cuts a torn end. Called oldest first, before the threads start.
    cdef char[25] name
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
    # Reads records from `at` to the end. counted: adds them to the counts of their partitions.
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
                out.pieces += not out.damaged      # a piece may be longer than a window
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
        end = at = SEGMENT_HEAD        # the segment was just being created
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
    # Takes over a segment of a daemon that is gone. Requires that this daemon has no segment, and that the caller has
    # locked the other folder. Done when the segment has left that folder. Reads the whole segment, so it blocks like a
    # start.
    cdef char[25] name
    cdef char[25] named
    cdef uint64_t noted = 0
    cdef int64_t at = 0
    cdef int error = 0
    cdef int fd
    cdef int from_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if from_fd < 0:
        return errno
    segment_name(number, name)
    segment_name(spool_number(), named)
    # first notes here which part of it is in the database already
    if position_read(from_fd, &noted, &at) and noted == number:
        error = position_write(spool.dir_fd, spool.number, at)
    if error == 0 and renameat(from_fd, name, spool.dir_fd, named) != 0:
        error = errno
    if error == 0 and (fsync(spool.dir_fd) != 0 or fsync(from_fd) != 0):
        # the segment is taken over; after a crash either folder may have it
        error = errno
    close(from_fd)
    fd = openat(spool.dir_fd, named, O_RDWR | O_CLOEXEC)
    if fd < 0:
        return error if error else errno
    error = segment_recover(fd, spool.number)
    close(fd)
    return error

cdef int quarantine_recover() noexcept nogil:
    # Counts the records that earlier runs could not store. Called before the segments: pieces cut off them add to the
    # count.
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
    # Cuts the bytes after the last complete record, and keeps a copy in the quarantine. They were being written when
    # the machine or the daemon stopped, and were not acknowledged; or they were damaged later.
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
