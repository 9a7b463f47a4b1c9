# Test seams for the http room: reads a connection without a socket.

cdef object probe_head(Head* h):
    return {"method": METHODS[h.method] if h.method != METHOD_HEAD else "HEAD", "target": slice_bytes(h.target),
            "path": slice_bytes(h.path), "query": slice_bytes(h.query), "headers": header_pairs(h.headers),
            "keep_alive": bool(h.keep_alive), "http10": bool(h.http10), "expects": bool(h.expects), "body": b""}

def probe_http(pieces, size_t max_head=32768, size_t max_target=8192, int64_t max_body=1 << 20):
    """Bytes that arrive in these pieces: (requests, refusal, bytes left over). A refusal is (status, reason) and the
    end."""
    cdef HeadLimits limits
    cdef Head h
    cdef Chunked chunked
    cdef Buf body
    cdef size_t used = 0
    cdef int outcome
    cdef bytes held = b""
    cdef char* copy
    cdef size_t n
    limits.max_head = max_head
    limits.max_target = max_target
    limits.max_body = max_body
    head_open()
    requests = []
    request = None
    length = 0
    decoding = False
    buf_init(&body)
    try:
        for piece in pieces:
            held += piece
            while held:
                if request is None:
                    n = len(held)
                    copy = <char*>malloc(n)          # AddressSanitizer reports a read past the end
                    memcpy(copy, <const char*>held, n)
                    outcome = head_parse(copy, n, &limits, &h)
                    if outcome == PARSED_REFUSED or outcome == PARSED_WHOLE and h.status:
                        free(copy)
                        return requests, (h.status, h.reason.decode()), len(held)
                    if outcome == PARSED_SHORT:
                        free(copy)
                        break
                    request = probe_head(&h)
                    free(copy)
                    held = held[h.size:]
                    length = h.length
                    decoding = h.chunked
                    buf_clear(&body)
                    chunked_open(&chunked)
                elif decoding:
                    outcome = chunked_feed(&chunked, held, len(held), &used, max_body, &body)
                    if outcome == PARSED_REFUSED:
                        return requests, (chunked.status, chunked.reason.decode()), len(held)
                    held = held[used:]
                    if outcome == PARSED_SHORT:
                        break
                    request["body"] = body.data[:body.len] if body.len else b""
                    decoding = False
                    length = 0
                elif length:
                    used = min(length, len(held))
                    request["body"] += held[:used]
                    length -= used
                    held = held[used:]
                if request is not None and not decoding and not length:
                    requests.append(request)
                    if not request["keep_alive"]:
                        return requests, None, len(held)
                    request = None
        return requests, None, len(held) + (0 if request is None else 1)
    finally:
        buf_free(&body)

def probe_http_date(int64_t second):
    cdef HttpDate d
    memset(&d, 0, sizeof(d))
    response_date(&d, second)
    return (<bytes>d.text).decode()

def probe_sizes():
    """Bytes of what stands for an idle connection and for a parked request (whose arena holds one chunk more)."""
    return {"connection": sizeof(Conn), "handle": sizeof(uv_tcp_t), "request": sizeof(Request), "chunk": ARENA_CHUNK}
