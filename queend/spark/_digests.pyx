# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Digests of rows of Arrow columns, and the count of equal rows, for the ids of the sink (ids.py). Compiled apart from
the core, because executors need nothing else of that: this module is loaded in a millisecond and needs libcrypto
alone."""
import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

cdef extern from "<openssl/sha.h>" nogil:
    ctypedef struct SHA256_CTX:
        pass
    int SHA256_Init(SHA256_CTX*)
    int SHA256_Update(SHA256_CTX*, const void*, size_t)
    int SHA256_Final(unsigned char*, SHA256_CTX*)

cdef extern from "wide.h" nogil:
    void wide_fetch(const void* p)
    void wide_uuid_format(const unsigned char* id, char* out)

cdef enum:
    COLUMNS_MOST = 8
    TEXT = 36                 # bytes of a UUID
    GATHERED = 512            # bytes of short values that are hashed together
    LENGTH_MOST = 24          # bytes of a length with its colon
    AHEAD = 64                # rows that are digested before the first of them is counted
    CELLS_LEAST = 4096

cdef struct Column:
    Py_buffer valid, ends, data         # obj NULL: none
    int64_t first             # row of the buffers that is row 0
    bint wide                 # ends are of 64 bits

cdef struct Cell:
    unsigned char[16] digest
    uint64_t count            # 0: the cell is empty

cdef class Digests:
    """Digests of the rows of one block, and how many rows have each: 48 to 96 bytes for each of them."""

    cdef Cell* cells
    cdef uint64_t used
    cdef int bits             # of the number of cells
    cdef uint64_t odd, other  # secret: rows that share a cell cannot be chosen

    def __cinit__(self):
        self.odd, self.other = (int.from_bytes(os.urandom(8)) | 1 for _ in range(2))
        self.bits = 12
        self.cells = <Cell*>calloc(CELLS_LEAST, sizeof(Cell))
        if self.cells == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.cells)

    def __len__(self):
        return self.used

    def clear(self):
        """Begins a block."""
        memset(self.cells, 0, sizeof(Cell) << self.bits)
        self.used = 0

    def spell(self, bytes key not None, list columns not None, int64_t first, int64_t n, texts):
        """Writes the ids of rows as texts of 36 bytes, that of row 0 at the begin of the buffer `texts`.

        key: 16 bytes hashed before each row; columns: for each the buffers of an Arrow array of strings or bytes
        (validity or None, ends, values or None), its offset, and whether its ends have 64 bits; first, n: the rows.
        One thread at a time. Raises ValueError for ends that lie outside the values, MemoryError."""
        cdef Column[COLUMNS_MOST] taken
        cdef Py_buffer out
        cdef const unsigned char* prefix = key
        cdef int count = 0
        cdef int done
        if len(key) != 16 or len(columns) > COLUMNS_MOST or first < 0 or n < 0:
            raise ValueError("a key of 16 bytes and at most 8 columns")
        memset(taken, 0, sizeof(taken))
        memset(&out, 0, sizeof(out))
        try:
            PyObject_GetBuffer(texts, &out, PyBUF_WRITABLE)
            if n > out.len // TEXT - first:
                raise ValueError("the buffer for the texts is too small")
            for valid, ends, values, offset, wide in columns:
                column_take(&taken[count], valid, ends, values, offset + first, wide)
                count += 1
                column_check(&taken[count - 1], n)
            with nogil:
                done = self.all(prefix, taken, count, n, <char*>out.buf + TEXT * first)
            if done < 0:
                raise MemoryError
            if done == 0:
                raise ValueError("a column whose values lie outside its buffer")
        finally:
            for i in range(COLUMNS_MOST):
                PyBuffer_Release(&taken[i].valid)
                PyBuffer_Release(&taken[i].ends)
                PyBuffer_Release(&taken[i].data)
            PyBuffer_Release(&out)

    cdef int all(self, const unsigned char* key, Column* columns, int count, int64_t n, char* out) noexcept nogil:
        # Returns 1, 0 for a bad column, -1 if memory ran out.
        cdef unsigned char[AHEAD][32] digests      # a digest has 32 bytes, of which 16 count
        cdef int64_t i, more
        cdef int64_t at = 0
        cdef uint64_t before
        while at < n:
            more = min(<int64_t>AHEAD, n - at)
            for i in range(more):
                if not row_digest(key, columns, count, at + i, digests[i]):
                    return 0
            if self.used + <uint64_t>more > (<uint64_t>1 << self.bits) // 2 and not self.grow():
                return -1
            for i in range(more):
                wide_fetch(self.cells + self.cell(digests[i]))
            for i in range(more):
                before = self.counted(digests[i])
                if before:
                    again_digest(digests[i], before)
                id_spell(digests[i], out + TEXT * (at + i))
            at += more
        return 1

    cdef inline uint64_t cell(self, const unsigned char* digest) noexcept nogil:
        # Returns the cell of a digest, by its highest bits: twice as many cells keep their order.
        cdef uint64_t[2] halves
        memcpy(halves, digest, 16)
        return (halves[0] * self.odd + halves[1] * self.other) >> (64 - self.bits)

    cdef uint64_t counted(self, const unsigned char* digest) noexcept nogil:
        # Counts a row. Returns the number of earlier ones with this digest. Requires an empty cell.
        cdef Cell* c
        cdef uint64_t at = self.cell(digest)
        while True:
            c = self.cells + at
            if c.count == 0:
                memcpy(c.digest, digest, 16)
                self.used += 1
                break
            if memcmp(c.digest, digest, 16) == 0:
                break
            at = (at + 1) & ((<uint64_t>1 << self.bits) - 1)
        c.count += 1
        return c.count - 1

    cdef bint grow(self) noexcept nogil:
        cdef Cell* old = self.cells
        cdef uint64_t n = <uint64_t>1 << self.bits
        cdef uint64_t i, at
        cdef Cell* more = <Cell*>calloc(2 * n, sizeof(Cell))
        if more == NULL:
            return False
        self.cells = more
        self.bits += 1
        for i in range(n):
            if old[i].count:
                at = self.cell(old[i].digest)
                while more[at].count:
                    at = (at + 1) & (2 * n - 1)
                more[at] = old[i]
        free(old)
        return True

cdef int column_take(Column* c, valid, ends, values, int64_t first, bint wide) except -1:
    if valid is not None:
        PyObject_GetBuffer(valid, &c.valid, PyBUF_SIMPLE)
    PyObject_GetBuffer(ends, &c.ends, PyBUF_SIMPLE)
    if values is not None:
        PyObject_GetBuffer(values, &c.data, PyBUF_SIMPLE)
    c.first = first
    c.wide = wide
    return 0

cdef int column_check(Column* c, int64_t n) except -1:
    # Requires n rows in the buffers; where each of them ends is checked when it is read.
    if c.first < 0 or c.ends.len < (c.first + n + 1) * (8 if c.wide else 4) or (
            c.valid.buf != NULL and c.valid.len * 8 < c.first + n):
        raise ValueError("a column with fewer rows than the others")
    return 0

cdef inline int64_t column_end(const Column* c, int64_t i) noexcept nogil:
    return (<const int64_t*>c.ends.buf)[i] if c.wide else (<const int32_t*>c.ends.buf)[i]

cdef bint row_digest(const unsigned char* key, const Column* columns, int count, int64_t row,
                     unsigned char* out) noexcept nogil:
    # Writes the SHA-256 of a row: the key, and each value with its length before it. So two rows are equal only if all
    # of their values are. Returns False if a value lies outside its buffer.
    cdef SHA256_CTX c
    cdef unsigned char[GATHERED] gathered
    cdef const Column* column
    cdef const unsigned char* value
    cdef size_t n = 16
    cdef int64_t i, begin, end
    cdef int k
    SHA256_Init(&c)
    memcpy(gathered, key, 16)
    for k in range(count):
        column = &columns[k]
        i = column.first + row
        if n > GATHERED - LENGTH_MOST:
            SHA256_Update(&c, gathered, n)
            n = 0
        if column.valid.buf != NULL and not (<const unsigned char*>column.valid.buf)[i >> 3] >> (i & 7) & 1:
            memcpy(gathered + n, <const char*>b"-:", 2)
            n += 2
            continue
        begin = column_end(column, i)
        end = column_end(column, i + 1)
        if begin < 0 or end < begin or end > column.data.len:
            return False
        n += length_spell(<uint64_t>(end - begin), gathered + n)
        value = <const unsigned char*>column.data.buf + begin
        if n + <size_t>(end - begin) > GATHERED:
            SHA256_Update(&c, gathered, n)
            SHA256_Update(&c, value, <size_t>(end - begin))
            n = 0
        elif end > begin:
            memcpy(gathered + n, value, <size_t>(end - begin))
            n += <size_t>(end - begin)
    SHA256_Update(&c, gathered, n)
    SHA256_Final(out, &c)
    return True

cdef inline size_t length_spell(uint64_t n, unsigned char* out) noexcept nogil:
    # Writes a number in decimal and a colon, at most LENGTH_MOST bytes. Returns the count of them.
    cdef unsigned char[LENGTH_MOST] text
    cdef size_t at = LENGTH_MOST
    at -= 1
    text[at] = b':'
    while True:
        at -= 1
        text[at] = <unsigned char>(c'0' + n % 10)
        n //= 10
        if n == 0:
            break
    memcpy(out, text + at, LENGTH_MOST - at)
    return LENGTH_MOST - at

cdef void again_digest(unsigned char* digest, uint64_t before) noexcept nogil:
    # Replaces the digest of a row that has `before` equal ones before it in the block.
    cdef SHA256_CTX c
    cdef unsigned char[8] number
    cdef int i
    for i in range(8):
        number[i] = <unsigned char>(before >> (56 - 8 * i))
    SHA256_Init(&c)
    SHA256_Update(&c, digest, 16)
    SHA256_Update(&c, number, 8)
    SHA256_Final(digest, &c)

cdef inline void id_spell(unsigned char* digest, char* out) noexcept nogil:
    # Writes a UUID of version 8 whose other 120 bits are the digest's.
    digest[6] = 0x80 | (digest[6] & 0x0f)
    digest[8] = 0xa0 | (digest[8] & 0x0f)
    wide_uuid_format(digest, out)

def ends_of(int64_t n, ends):
    """Writes the ends of n texts of 36 bytes: n + 1 numbers of 32 bits. Raises ValueError if they do not fit."""
    cdef Py_buffer out
    cdef int64_t i
    PyObject_GetBuffer(ends, &out, PyBUF_WRITABLE)
    try:
        if not 0 <= n < out.len // 4 or n > INT32_MAX // TEXT:
            raise ValueError(f"{n} texts are too many")
        for i in range(n + 1):
            (<int32_t*>out.buf)[i] = <int32_t>(TEXT * i)
    finally:
        PyBuffer_Release(&out)
