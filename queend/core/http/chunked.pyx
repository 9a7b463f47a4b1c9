# Decodes a chunked body as its bytes come in, in pieces of any size. In: bytes. Out: the body, or a refusal. Extensions
# and trailers are checked, bounded and dropped. Owner: the connection that receives the body. Without I/O and locks.

cdef enum ChunkState:
    CHUNK_SIZE = 0            # digits of a size
    CHUNK_EXTENSION = 1       # in the name of an extension
    CHUNK_SIZE_LF = 2
    CHUNK_DATA = 3
    CHUNK_DATA_CR = 4
    CHUNK_DATA_LF = 5
    CHUNK_TRAILER = 6         # at the beginning of a trailer line
    CHUNK_TRAILER_NAME = 7
    CHUNK_TRAILER_VALUE = 8
    CHUNK_TRAILER_LF = 9
    CHUNK_LAST_LF = 10
    CHUNK_DONE = 11
    CHUNK_EXTENSION_NAME = 12 # the first byte of a name
    CHUNK_EXTENSION_VALUE = 13        # the first byte behind the equals sign
    CHUNK_EXTENSION_TOKEN = 14
    CHUNK_EXTENSION_QUOTED = 15
    CHUNK_EXTENSION_ESCAPED = 16      # behind a backslash
    CHUNK_EXTENSION_END = 17          # behind the closing quote

cdef enum:
    CHUNK_EXTRA_MAX = 16384   # bytes of extensions and trailers together

cdef struct Chunked:
    uint8_t state
    uint8_t digits
    int extra
    int64_t left              # of this chunk
    int status                # of the refusal
    const char* reason

cdef inline void chunked_open(Chunked* c) noexcept nogil:
    memset(c, 0, sizeof(Chunked))

cdef int chunked_refuse(Chunked* c, int status, const char* reason) noexcept nogil:
    c.status = status
    c.reason = reason
    return PARSED_REFUSED

cdef int chunked_feed(Chunked* c, const char* data, size_t n, size_t* used, int64_t max_body, Buf* out) noexcept nogil:
    # Decodes n bytes. Returns PARSED_WHOLE if the body is complete; `used` bytes of data belonged to it. Returns
    # PARSED_SHORT if all were used and more are needed, PARSED_REFUSED if the body was refused.
    cdef size_t i = 0
    cdef size_t k
    cdef int v
    cdef unsigned char b
    while i < n:
        if c.state == CHUNK_DATA:
            k = n - i
            if <int64_t>k > c.left:
                k = <size_t>c.left
            buf_put(out, data + i, k)
            i += k
            c.left -= k
            if c.left == 0:
                c.state = CHUNK_DATA_CR
            continue
        b = <unsigned char>data[i]
        i += 1
        if c.state == CHUNK_SIZE:
            v = slice_hex(b)
            if v >= 0:
                c.digits += 1
                c.left = c.left * 16 + v
                if c.left + <int64_t>out.len > max_body or c.digits > 15:
                    return chunked_refuse(c, 413, b"The request body is too large")
            elif c.digits == 0:
                return chunked_refuse(c, 400, b"Malformed chunk size")
            elif b == b'\r':
                c.state = CHUNK_SIZE_LF
            elif b == b';':
                c.state = CHUNK_EXTENSION_NAME
            else:
                return chunked_refuse(c, 400, b"Malformed chunk size")
        elif c.state == CHUNK_SIZE_LF:
            if b != b'\n':
                return chunked_refuse(c, 400, b"Malformed chunk size")
            c.digits = 0
            c.state = CHUNK_DATA if c.left else CHUNK_TRAILER
        elif c.state == CHUNK_DATA_CR:
            if b != b'\r':
                return chunked_refuse(c, 400, b"Malformed chunk end")
            c.state = CHUNK_DATA_LF
        elif c.state == CHUNK_DATA_LF:
            if b != b'\n':
                return chunked_refuse(c, 400, b"Malformed chunk end")
            c.state = CHUNK_SIZE
        elif c.state == CHUNK_LAST_LF:
            if b != b'\n':
                return chunked_refuse(c, 400, b"Malformed trailer")
            c.state = CHUNK_DONE
            used[0] = i
            return PARSED_WHOLE
        else:
            c.extra += 1
            if c.extra > CHUNK_EXTRA_MAX:
                return chunked_refuse(c, 431, b"Chunk extensions and trailers are too large")
            if CHUNK_TRAILER <= c.state <= CHUNK_TRAILER_LF:
                if not chunked_trailer(c, b):
                    return chunked_refuse(c, 400, b"Malformed trailer")
            elif not chunked_extension(c, b):
                return chunked_refuse(c, 400, b"Malformed chunk extension")
    used[0] = i
    return PARSED_SHORT

cdef inline bint chunked_extension(Chunked* c, unsigned char b) noexcept nogil:
    # Takes a byte of ;name, ;name=token or ;name="any \"text\"" (RFC 9112 7.1.1). Returns False if it is malformed.
    # White space is refused, because it is used to smuggle requests.
    if c.state == CHUNK_EXTENSION_QUOTED:
        if b == b'"':
            c.state = CHUNK_EXTENSION_END
        elif b == b'\\':
            c.state = CHUNK_EXTENSION_ESCAPED
        elif not http_class[b] & HTTP_VALUE:
            return False
    elif c.state == CHUNK_EXTENSION_ESCAPED:
        if not http_class[b] & HTTP_VALUE:
            return False
        c.state = CHUNK_EXTENSION_QUOTED
    elif http_class[b] & HTTP_TOKEN:
        if c.state == CHUNK_EXTENSION_NAME:
            c.state = CHUNK_EXTENSION
        elif c.state == CHUNK_EXTENSION_VALUE:
            c.state = CHUNK_EXTENSION_TOKEN
        return c.state != CHUNK_EXTENSION_END
    elif c.state == CHUNK_EXTENSION_NAME:
        return False
    elif b == b'"' and c.state == CHUNK_EXTENSION_VALUE:
        c.state = CHUNK_EXTENSION_QUOTED
    elif c.state == CHUNK_EXTENSION_VALUE:
        return False
    elif b == b'\r':
        c.state = CHUNK_SIZE_LF
    elif b == b';':
        c.state = CHUNK_EXTENSION_NAME
    elif b == b'=' and c.state == CHUNK_EXTENSION:
        c.state = CHUNK_EXTENSION_VALUE
    else:
        return False
    return True

cdef inline bint chunked_trailer(Chunked* c, unsigned char b) noexcept nogil:
    if c.state == CHUNK_TRAILER:
        if b == b'\r':
            c.state = CHUNK_LAST_LF
        elif http_class[b] & HTTP_TOKEN:
            c.state = CHUNK_TRAILER_NAME
        else:
            return False
    elif c.state == CHUNK_TRAILER_NAME:
        if b == b':':
            c.state = CHUNK_TRAILER_VALUE
        elif not http_class[b] & HTTP_TOKEN:
            return False
    elif c.state == CHUNK_TRAILER_VALUE:
        if b == b'\r':
            c.state = CHUNK_TRAILER_LF
        elif not http_class[b] & HTTP_VALUE:
            return False
    elif b == b'\n':
        c.state = CHUNK_TRAILER
    else:
        return False
    return True
