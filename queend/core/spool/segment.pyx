# The files of the failover buffer. In: bytes to keep, places to read, files of an earlier run. Out: errno, 0 on
# success. Knows no jobs. Owns the folder, which belongs to one process (the supervisor locks it). It holds segments,
# `position` and `quarantine`. A segment has a rising number as its name, a head, and records back to back. The file
# `position` says how much of the oldest segment is in the database. The file `quarantine` has the records that could
# not be stored. All calls block and take no lock.

cdef enum:
    SEGMENT_HEAD = 16
    POSITION_SIZE = 24

cdef struct SpoolWrite:
    # Bytes for one segment, and the segment's previous end.
    uv_work_t work
    Buf bytes
    int64_t records
    JobList jobs              # jobs of these records
    int fd                    # -1: creates a new segment
    uint64_t number
    int64_t at
    int error

cdef struct SpoolSegment:
    SpoolSegment* next
    uint64_t number
    int64_t size              # valid bytes
    int64_t records           # records not drained yet

cdef struct SpoolStep:
    # Work between two chunks: notes what was done, then reads the next bytes.
    uv_work_t work
    Buf bad                   # bytes for the quarantine
    SpoolSegment* drained     # segments whose files are to be deleted, oldest first
    bint note                 # the position changed
    uint64_t number
    int64_t at
    int fd                    # of the segment being read, -1: not open
    size_t want               # bytes to read, 0: none
    Buf bytes
    int error                 # of the read
    int note_error            # of the quarantine, the deletion or the position; the next step repeats what failed

cdef struct SpoolScan:
    # The content of a file.
    int64_t records
    int64_t pieces            # pieces without a record
    bint damaged              # it ends with such a piece
    int64_t good              # offset after the last complete record
    int64_t since_us          # when its first record was taken

# ---- bytes -----------------------------------------------------------------------------------------------------------

cdef void segment_name(uint64_t number, char* out) noexcept nogil:
    # Writes the name to out: 25 bytes with the NUL.
    snprintf(out, 25, b"%020llu.seg", <unsigned long long>number)

cdef int segment_head(int fd) noexcept nogil:
    # Writes the head of a file.
    cdef char[SEGMENT_HEAD] head
    memset(head, 0, SEGMENT_HEAD)
    memcpy(head, b"QUEENBUF", 8)
    head[8] = 1
    return segment_write(fd, head, SEGMENT_HEAD, 0)

cdef void segment_close(int* fd) noexcept nogil:
    # Closes the file if it is open; sets fd to -1.
    if fd[0] >= 0:
        close(fd[0])
    fd[0] = -1

cdef inline int segment_write(int fd, char* p, size_t n, int64_t at) noexcept nogil:
    return segment_move(fd, p, n, at, True)

cdef inline int segment_read(int fd, char* p, size_t n, int64_t at) noexcept nogil:
    return segment_move(fd, p, n, at, False)

cdef int segment_move(int fd, char* p, size_t n, int64_t at, bint writes) noexcept nogil:
    cdef ssize_t done
    while n:
        done = pwrite(fd, p, n, at) if writes else pread(fd, p, n, at)
        if done < 0 and errno == EINTR:
            continue
        if done <= 0:
            return errno if done < 0 else EIO       # a file is shorter than expected
        p += done
        at += done
        n -= <size_t>done
    return 0

# ---- on a thread of the pool -----------------------------------------------------------------------------------------

cdef void segment_write_run(uv_work_t* work) noexcept nogil:
    # Writes the bytes durably. If error is 0, they survive a crash of the machine; otherwise the file is as before the
    # call.
    cdef SpoolWrite* t = <SpoolWrite*>work.data
    cdef char[25] name
    cdef bint fresh = t.fd < 0
    t.error = 0
    if fresh:
        segment_name(t.number, name)
        t.fd = openat(spool.dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0o600)
        if t.fd < 0:
            t.error = errno
            return
        t.error = segment_head(t.fd)
        t.at = SEGMENT_HEAD
    if t.error == 0:
        t.error = segment_write(t.fd, t.bytes.data, t.bytes.len, t.at)
    if t.error == 0 and fdatasync(t.fd) != 0:
        t.error = errno
    if t.error == 0 and fresh and fsync(spool.dir_fd) != 0:
        t.error = errno
    if t.error == 0:
        return
    # After a failed fsync the file's content on disk is undefined: the file is not written again.
    if fresh:
        unlinkat(spool.dir_fd, name, 0)
    elif ftruncate(t.fd, t.at) == 0:
        fdatasync(t.fd)
    segment_close(&t.fd)

cdef void segment_step_run(uv_work_t* work) noexcept nogil:
    # Notes what was done, then reads. Reads also if noting fails: on a full disk only draining makes room. Records that
    # a crash drains again are found by their ids.
    cdef SpoolStep* t = <SpoolStep*>work.data
    cdef char[25] name
    t.error = 0
    t.note_error = segment_step_note(t)
    if t.want == 0:
        return
    if t.fd < 0:
        segment_name(t.number, name)
        t.fd = openat(spool.dir_fd, name, O_RDONLY | O_CLOEXEC)
        if t.fd < 0:
            t.error = errno
            return
    buf_clear(&t.bytes)
    if buf_reserve(&t.bytes, t.want) == NULL:
        t.error = ENOMEM
    else:
        t.error = segment_read(t.fd, t.bytes.data, t.want, t.at)

cdef int segment_step_note(SpoolStep* t) noexcept nogil:
    # Ends at the first error. Order: failed records are in the quarantine before the position passes them, and drained
    # segments are deleted before the position names the next one. Noting a position twice is harmless.
    cdef char[25] name
    cdef SpoolSegment* s
    cdef int error
    if t.bad.len:
        error = segment_quarantine(&t.bad)
        if error:
            return error
        buf_clear(&t.bad)
    while t.drained != NULL:
        s = t.drained
        segment_name(s.number, name)
        if unlinkat(spool.dir_fd, name, 0) != 0 and errno != ENOENT:
            return errno
        t.drained = s.next
        free(s)
    if t.note:
        error = segment_note(t.number, t.at)
        if error:
            return error
        t.note = False
    return 0

cdef int segment_quarantine(Buf* bad) noexcept nogil:
    # Appends bytes to the quarantine, durably, so that a segment may drop them afterwards.
    cdef int64_t size, end
    cdef int error = 0
    cdef int fd = openat(spool.dir_fd, b"quarantine", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if fd < 0:
        return errno
    size = end = lseek(fd, 0, SEEK_END)
    if size < SEGMENT_HEAD:
        error = segment_head(fd)
        end = SEGMENT_HEAD
    if error == 0:
        error = segment_write(fd, bad.data, bad.len, end)
    if error == 0 and (fdatasync(fd) != 0 or fsync(spool.dir_fd) != 0):
        error = errno
    if error != 0 and ftruncate(fd, size) != 0:
        pass                  # the copy is made again: duplicates are better than a loss
    close(fd)
    return error

cdef int segment_note(uint64_t number, int64_t at) noexcept nogil:
    cdef char[POSITION_SIZE] text
    cdef int error
    cdef int fd
    memset(text, 0, POSITION_SIZE)
    le64_put(text, number)
    le64_put(text + 8, <uint64_t>at)
    le32_put(text + 16, crc32c(0, text, 16))
    fd = openat(spool.dir_fd, b"position", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if fd < 0:
        return errno
    error = segment_write(fd, text, POSITION_SIZE, 0)
    if error == 0 and fdatasync(fd) != 0:
        error = errno
    close(fd)
    return error

cdef bint segment_noted(int dir_fd, uint64_t* number, int64_t* at) noexcept nogil:
    # Reads the position. Returns False if it is missing or torn; then the oldest segment is drained from its start,
    # which stores nothing twice.
    cdef char[POSITION_SIZE] text
    cdef bint ok
    cdef int fd = openat(dir_fd, b"position", O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return False
    ok = segment_read(fd, text, POSITION_SIZE, 0) == 0 and le32(text + 16) == crc32c(0, text, 16)
    close(fd)
    number[0] = le64(text)
    at[0] = <int64_t>le64(text + 8)
    return ok

# ---- existing files --------------------------------------------------------------------------------------------------
# Segments of an earlier run, a segment of a daemon that is gone, the quarantine. Records are counted; a torn end is cut
# off and kept. Before the threads start, or (segment_adopt) on the first worker's thread.

cdef int segment_count_failed() noexcept nogil:
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
        error = segment_scan(fd, SEGMENT_HEAD, end, False, &scan)
        spool.failed = scan.records + scan.pieces
    close(fd)
    return error

cdef int segment_recover_file(uint64_t number, char* reason, size_t size) noexcept nogil:
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

cdef int segment_recover(int fd, uint64_t number) noexcept nogil:
    cdef int64_t end = lseek(fd, 0, SEEK_END)
    cdef int64_t at = SEGMENT_HEAD
    cdef int64_t noted_at = 0
    cdef uint64_t noted = 0
    cdef SpoolSegment* s
    cdef SpoolScan scan
    cdef int error
    if segment_noted(spool.dir_fd, &noted, &noted_at) and noted == number and SEGMENT_HEAD <= noted_at <= end:
        at = noted_at
    if end < SEGMENT_HEAD:
        end = at = SEGMENT_HEAD        # the segment was just being created
    s = spool_add(number)
    if s == NULL:
        return ENOMEM
    if spool.first == s:
        spool.at = at
    error = segment_scan(fd, at, end, True, &scan)
    if not error and scan.good < end:
        error = segment_cut(fd, scan.good, end)
        if error == 0:
            end = scan.good
        elif error == ENOSPC or error == EDQUOT or error == EFBIG:
            error = 0          # no room for the copy: the drain finds the torn end, and keeps it then
    if spool.pending == 0:
        spool.oldest_us = scan.since_us
    s.size = end
    s.records = scan.records
    spool.pending += s.records
    spool.bytes += end
    return error

cdef int segment_scan(int fd, int64_t at, int64_t end, bint counted, SpoolScan* out) noexcept nogil:
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
        error = segment_read(fd, b.data, have, at)
        want = SPOOL_WINDOW
        p = 0
        while p < have and not error:
            found = spool_record_next(b.data + p, have - p, <size_t>(end - at) - p, &it, &x, &since, &n)
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

cdef int segment_cut(int fd, int64_t good, int64_t end) noexcept nogil:
    # Cuts the bytes after the last complete record, and keeps a copy in the quarantine. They were being written when
    # the machine or the daemon stopped, and were not acknowledged; or they were damaged later.
    cdef Buf b
    cdef char[64] text
    cdef int error
    buf_init(&b)
    if buf_reserve(&b, <size_t>(end - good)) == NULL:
        return ENOMEM
    error = segment_read(fd, b.data, b.len, good)
    if error == 0:
        error = segment_quarantine(&b)
    buf_free(&b)
    if error == 0 and (ftruncate(fd, good) != 0 or fdatasync(fd) != 0):
        error = errno
    if error == 0:
        spool.failed += 1
        snprintf(text, sizeof(text), b"%lld bytes", <long long>(end - good))
        log_line(b"warn", b"buffer_end_cut", text)
    return error

cdef int segment_adopt(const char* dir, uint64_t number) noexcept nogil:
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
    # First notes here which part of it is in the database already. If the note finds no room, the drain begins at
    # the start of the segment. The database then recognises stored records by their ids.
    if segment_noted(from_fd, &noted, &at) and noted == number:
        segment_note(spool.number, at)
    if renameat(from_fd, name, spool.dir_fd, named) != 0:
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
