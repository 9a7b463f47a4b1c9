# The files of the failover buffer. In: bytes to keep, places to read. Out: errno, 0 on success. Knows no jobs. All
# calls block; they run on libuv's thread pool, or before the loops start.
# The folder belongs to one process (the supervisor locks it). It holds segments, `position` and `quarantine`. A segment
# has a rising number as its name, a head, and records back to back. `position` says how much of the oldest segment is
# in the database. `quarantine` has the records that could not be stored.

cdef enum:
    SEGMENT_HEAD = 16
    POSITION_SIZE = 24

cdef struct SpoolWrite:
    # Bytes for one segment, and the segment's previous end.
    uv_work_t work
    Buf bytes
    int64_t records
    JobList jobs              # jobs of these records
    int dir_fd
    int fd                    # -1: creates a new segment
    uint64_t number
    int64_t at
    int error

cdef struct SpoolStep:
    # Work between two chunks: notes what was done, then reads the next bytes.
    uv_work_t work
    int dir_fd
    Buf bad                   # bytes for the quarantine
    bint drop                 # the segment is drained and can be deleted
    uint64_t drop_number
    bint note                 # the position changed
    uint64_t number
    int64_t at
    int fd                    # of the segment being read, -1: not open
    size_t want               # bytes to read, 0: none
    Buf bytes
    int error

cdef void segment_name(uint64_t number, char* out) noexcept nogil:
    # Writes the name to out: 25 bytes with the NUL.
    snprintf(out, 25, b"%020llu.seg", <unsigned long long>number)

cdef void segment_head(char* out) noexcept nogil:
    memset(out, 0, SEGMENT_HEAD)
    memcpy(out, b"QUEENBUF", 8)
    out[8] = 1

cdef void file_close(int* fd) noexcept nogil:
    # Closes the file if it is open; sets fd to -1.
    if fd[0] >= 0:
        close(fd[0])
    fd[0] = -1

cdef int file_write(int fd, const char* p, size_t n, int64_t at) noexcept nogil:
    cdef ssize_t done
    while n:
        done = pwrite(fd, p, n, at)
        if done < 0 and errno == EINTR:
            continue
        if done <= 0:
            return errno if done < 0 else EIO
        p += done
        at += done
        n -= <size_t>done
    return 0

cdef int file_read(int fd, char* p, size_t n, int64_t at) noexcept nogil:
    cdef ssize_t done
    while n:
        done = pread(fd, p, n, at)
        if done < 0 and errno == EINTR:
            continue
        if done <= 0:
            return errno if done < 0 else EIO       # shorter than expected
        p += done
        at += done
        n -= <size_t>done
    return 0

cdef void spool_write_run(uv_work_t* work) noexcept nogil:
    # Writes the bytes durably. If error is 0, they survive a crash of the machine; otherwise the file is as before the
    # call.
    cdef SpoolWrite* t = <SpoolWrite*>work.data
    cdef char[25] name
    cdef char[SEGMENT_HEAD] head
    cdef bint fresh = t.fd < 0
    t.error = 0
    if fresh:
        segment_name(t.number, name)
        segment_head(head)
        t.fd = openat(t.dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0o600)
        if t.fd < 0:
            t.error = errno
            return
        t.error = file_write(t.fd, head, SEGMENT_HEAD, 0)
        t.at = SEGMENT_HEAD
    if t.error == 0:
        t.error = file_write(t.fd, t.bytes.data, t.bytes.len, t.at)
    if t.error == 0 and fdatasync(t.fd) != 0:
        t.error = errno
    if t.error == 0 and fresh and fsync(t.dir_fd) != 0:
        t.error = errno
    if t.error == 0:
        return
    # After a failed fsync the file's content on disk is undefined: the file is not written again.
    if fresh:
        unlinkat(t.dir_fd, name, 0)
    elif ftruncate(t.fd, t.at) == 0:
        fdatasync(t.fd)
    file_close(&t.fd)

cdef int quarantine_add(int dir_fd, Buf* bad) noexcept nogil:
    # Appends bytes to the quarantine, durably, so that a segment may drop them afterwards.
    cdef char[SEGMENT_HEAD] head
    cdef int64_t size
    cdef int error = 0
    cdef int fd = openat(dir_fd, b"quarantine", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if fd < 0:
        return errno
    size = lseek(fd, 0, SEEK_END)
    if size < SEGMENT_HEAD:
        segment_head(head)
        error = file_write(fd, head, SEGMENT_HEAD, 0)
        size = SEGMENT_HEAD
    if error == 0:
        error = file_write(fd, bad.data, bad.len, size)
    if error == 0 and (fdatasync(fd) != 0 or fsync(dir_fd) != 0):
        error = errno
    if error != 0 and ftruncate(fd, size) != 0:
        pass                  # the copy is made again: duplicates are better than a loss
    close(fd)
    return error

cdef int position_write(int dir_fd, uint64_t number, int64_t at) noexcept nogil:
    cdef char[POSITION_SIZE] text
    cdef int error
    cdef int fd
    memset(text, 0, POSITION_SIZE)
    le64_put(text, number)
    le64_put(text + 8, <uint64_t>at)
    le32_put(text + 16, crc32c(0, text, 16))
    fd = openat(dir_fd, b"position", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
    if fd < 0:
        return errno
    error = file_write(fd, text, POSITION_SIZE, 0)
    if error == 0 and fdatasync(fd) != 0:
        error = errno
    close(fd)
    return error

cdef bint position_read(int dir_fd, uint64_t* number, int64_t* at) noexcept nogil:
    # Reads the position. Returns False if it is missing or torn; then the oldest segment is drained from its start,
    # which stores nothing twice.
    cdef char[POSITION_SIZE] text
    cdef bint ok
    cdef int fd = openat(dir_fd, b"position", O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return False
    ok = file_read(fd, text, POSITION_SIZE, 0) == 0 and le32(text + 16) == crc32c(0, text, 16)
    close(fd)
    number[0] = le64(text)
    at[0] = <int64_t>le64(text + 8)
    return ok

cdef void spool_step_run(uv_work_t* work) noexcept nogil:
    # Order: failed records are safe before the position passes them; noting a position twice is harmless.
    cdef SpoolStep* t = <SpoolStep*>work.data
    cdef char[25] name
    t.error = 0
    if t.bad.len:
        t.error = quarantine_add(t.dir_fd, &t.bad)
        if t.error:
            return
        buf_clear(&t.bad)
    if t.drop:
        segment_name(t.drop_number, name)
        if unlinkat(t.dir_fd, name, 0) != 0 and errno != ENOENT:
            t.error = errno
            return
        t.drop = False
    if t.note:
        t.error = position_write(t.dir_fd, t.number, t.at)
        if t.error:
            return
        t.note = False
    if t.want == 0:
        return
    if t.fd < 0:
        segment_name(t.number, name)
        t.fd = openat(t.dir_fd, name, O_RDONLY | O_CLOEXEC)
        if t.fd < 0:
            t.error = errno
            return
    buf_clear(&t.bytes)
    if buf_reserve(&t.bytes, t.want) == NULL:
        t.error = ENOMEM
    else:
        t.error = file_read(t.fd, t.bytes.data, t.want, t.at)
