# The files of the failover buffer. Everything here blocks, and runs on a thread of libuv's pool or before the loops
# start; nothing here knows of jobs. In: bytes to keep, places to read. Out: errno, 0 when done.
#
# The folder belongs to one process (its lock is the supervisor's). In it: segments, named by a rising number, each a
# head and records back to back; `position`, up to where the oldest segment is in the database; `quarantine`, what could
# not be stored.

cdef enum:
    SEGMENT_HEAD = 16
    POSITION_SIZE = 24

cdef struct SpoolWrite:
    # Bytes for one segment, and its end before them.
    uv_work_t work
    Buf bytes
    int64_t records
    JobList jobs              # whose records these are
    int dir_fd
    int fd                    # -1: a new segment
    uint64_t number
    int64_t at
    int error

cdef struct SpoolStep:
    # Between two chunks: what was done is noted, the next bytes are read.
    uv_work_t work
    int dir_fd
    Buf bad                   # for the quarantine
    bint drop                 # the segment is done
    uint64_t drop_number
    bint note                 # the position moved
    uint64_t number
    int64_t at
    int fd                    # of the segment read, -1: not open
    size_t want               # bytes, 0: nothing to read
    Buf bytes
    int error

cdef void segment_name(uint64_t number, char* out) noexcept nogil:
    # 25 bytes with the NUL.
    snprintf(out, 25, b"%020llu.seg", <unsigned long long>number)

cdef void segment_head(char* out) noexcept nogil:
    memset(out, 0, SEGMENT_HEAD)
    memcpy(out, b"QUEENBUF", 8)
    out[8] = 1

cdef void file_close(int* fd) noexcept nogil:
    # If it is open; -1 afterwards.
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
            return errno if done < 0 else EIO       # shorter than it was
        p += done
        at += done
        n -= <size_t>done
    return 0

cdef void spool_write_run(uv_work_t* work) noexcept nogil:
    # Kept when this returns with error 0, whatever happens to the machine; else as if it had never been called.
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
    # What a failed fsync left on the disk is anybody's guess: this file is not written to again.
    if fresh:
        unlinkat(t.dir_fd, name, 0)
    elif ftruncate(t.fd, t.at) == 0:
        fdatasync(t.fd)
    file_close(&t.fd)

cdef int quarantine_add(int dir_fd, Buf* bad) noexcept nogil:
    # Kept like any record: what is dropped from a segment afterwards is in here.
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
        pass                  # the copy is made once more: better twice than not at all
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
    # False: there is none, or it was torn. Then the oldest segment is drained from its start, which stores nothing
    # twice.
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
    # In this order: what failed is safe before the position passes it; what is noted may be noted again.
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
