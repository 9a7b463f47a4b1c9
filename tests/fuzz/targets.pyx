# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What libFuzzer drives (`make fuzz`): the core once more, and a door to each of its readers. Each target gets
bytes in memory that ends where they end. It ends the process where a reader contradicts itself: other words for other
groupings of the same bytes, or something accepted that is not what it says."""
include "rooms.pyx"           # tools/fuzz.sh makes it of the map

cdef extern from "<stdlib.h>" nogil:
    void abort()

cdef enum:
    FUZZ_BODY = 1 << 16       # bytes that compressed input may become

cdef struct Fuzz:
    # One input, on its way.
    Arena arena
    Unzip unzip
    UuidGen ids
    Settings limits
    Tools tools
    char* copy
    Slice text                # BODY_PADDING bytes behind it are readable, as behind any body

cdef UuidGen fuzz_ids
cdef uint64_t fuzz_seen       # what was read goes in here: an access nobody could leave out

cdef void fuzz_open(Fuzz* f, const uint8_t* data, size_t n) noexcept nogil:
    memset(f, 0, sizeof(Fuzz))
    arena_open(&f.arena, NULL)
    f.ids = fuzz_ids
    f.limits.max_items = 1000
    f.limits.max_body = FUZZ_BODY
    f.limits.default_batch = 1
    f.limits.default_timeout_ms = 30000
    f.tools.arena = &f.arena
    f.tools.unzip = &f.unzip
    f.tools.uuids = &f.ids
    f.tools.settings = &f.limits
    f.copy = <char*>malloc(n + BODY_PADDING)
    memcpy(f.copy, data, n)
    memset(f.copy + n, 0, BODY_PADDING)
    f.text = slice_of(f.copy, n)

cdef void fuzz_close(Fuzz* f) noexcept nogil:
    arena_close(&f.arena)
    unzip_close(&f.unzip)
    free(f.copy)

cdef void fuzz_must(bint true, const char* what) noexcept nogil:
    if not true:
        fprintf(stderr, b"fuzz: %s\n", what)
        abort()

cdef void fuzz_touch(Slice s) noexcept nogil:
    global fuzz_seen
    if s.p != NULL:
        fuzz_seen += slice_hash(s, 1)

cdef bint fuzz_json_is(Slice text) noexcept nogil:
    cdef Json j
    json_open(&j, text, JSON_DEPTH_MAX)
    return json_skip(&j, NULL) and json_end(&j)

cdef void fuzz_refusal(ApiError* e) noexcept nogil:
    fuzz_must(e.status == 400 or e.status == 413 or e.status == 415, b"a refusal without a status of its own")
    fuzz_must(memchr(e.text, 0, 240) != NULL and e.text[0] != 0, b"a refusal without a text")

# ---- head ------------------------------------------------------------------------------------------------------------

cdef int fuzz_head_of(const uint8_t* data, size_t n, Head* h, char** copy) noexcept nogil:
    cdef HeadLimits limits
    limits.max_head = 2048
    limits.max_target = 512
    limits.max_body = FUZZ_BODY
    copy[0] = <char*>malloc(n if n else 1)
    memcpy(copy[0], data, n)
    return head_parse(copy[0], n, &limits, h)

cdef void fuzz_head(const uint8_t* data, size_t n) noexcept nogil:
    cdef Head h, part
    cdef Fuzz f
    cdef PopReq pop
    cdef LeaseReq lease
    cdef ApiError e
    cdef Slice value, parent, state
    cdef char* copy
    cdef char* other
    cdef size_t cut, step
    cdef const HotRoute* hot
    cdef int now
    cdef int outcome = fuzz_head_of(data, n, &h, &copy)
    step = n // 64 + 1
    cut = 0
    while cut < n:
        now = fuzz_head_of(data, cut, &part, &other)
        free(other)
        if now:
            fuzz_must(now == outcome and (now < 0 or part.size == h.size),
                      b"a head that is another when less of it has come")
        cut += step
    if outcome < 0:
        fuzz_must(400 <= h.status <= 505 and h.reason != NULL, b"a head refused without a reason")
    if outcome <= 0:
        free(copy)
        return
    fuzz_must(0 < h.size <= n and 0 <= h.length <= FUZZ_BODY, b"a head longer than what came")
    fuzz_must(not (h.chunked and (h.has_length or h.http10)), b"two lengths")
    # what every request goes through next
    for now in range(4):
        fuzz_touch(header_value(h.headers, b"content-type" if now == 0 else b"x-a" if now == 1
                                else b"authorization" if now == 2 else b"origin"))
    header_accept(h.headers, b"application/problem+json")
    fuzz_open(&f, <const uint8_t*>h.target.p, h.target.n)
    if trace_request(h.headers, &f.arena, &parent, &state):
        fuzz_touch(parent)
        fuzz_touch(state)
    hot = request_route(h.method, h.path)
    e.status = 0
    if hot != NULL and hot.submit is pop_submit:
        if popquery_parse(hot.route, h.path, h.query, &f.arena, &f.limits, &pop, &e):
            fuzz_must(text_is_utf8(pop.queue) and pop.queue.n <= NAME_MAX and text_is_utf8(pop.group),
                      b"a name that is none")
            fuzz_must(1 <= pop.batch <= BATCH_MAX and pop.timeout_ms >= 0, b"a pop out of bounds")
        else:
            fuzz_refusal(&e)
    elif hot != NULL and hot.submit is lease_submit:
        if not leasebody_parse(h.path, slice_of(copy + h.size, 0), &f.arena, &lease, &e):
            fuzz_refusal(&e)
    elif uri_find(h.query, b"q", &f.arena, &value) > 0:
        fuzz_touch(value)
    fuzz_close(&f)
    free(copy)

# ---- chunk -----------------------------------------------------------------------------------------------------------

cdef int fuzz_chunks_of(const uint8_t* data, size_t n, size_t piece, Chunked* c, Buf* out, size_t* used) noexcept nogil:
    # Reads a chunked body `piece` bytes at a time. Returns what chunked_feed returned last.
    cdef size_t at = 0
    cdef size_t now, took
    cdef char* copy
    cdef int outcome = 0
    chunked_open(c)
    buf_init(out)
    while at < n and outcome == 0:
        now = piece if piece < n - at else n - at
        copy = <char*>malloc(now)
        memcpy(copy, data + at, now)
        took = now
        outcome = chunked_feed(c, copy, now, &took, 4096, out)
        free(copy)
        at += took
        fuzz_must(outcome != 0 or took == now, b"bytes of a body that were left though more are needed")
    used[0] = at
    return outcome

cdef void fuzz_chunk(const uint8_t* data, size_t n) noexcept nogil:
    cdef Chunked one, other
    cdef Buf whole, parts
    cdef size_t used, also
    cdef int outcome, again
    cdef size_t piece
    if n < 2:
        return
    piece = 1 + data[0] % 7
    outcome = fuzz_chunks_of(data + 1, n - 1, n, &one, &whole, &used)
    again = fuzz_chunks_of(data + 1, n - 1, piece, &other, &parts, &also)
    fuzz_must(outcome == again, b"a body that is another in pieces")
    if outcome < 0:
        fuzz_must(one.status == other.status and one.reason != NULL, b"a body refused for another reason in pieces")
    else:
        fuzz_must(used == also and whole.len == parts.len and whole.len <= 4096, b"a body of another length in pieces")
        fuzz_must(whole.len == 0 or memcmp(whole.data, parts.data, whole.len) == 0, b"a body of other bytes in pieces")
    buf_free(&whole)
    buf_free(&parts)

# ---- json ------------------------------------------------------------------------------------------------------------

cdef void fuzz_value(Json* j, Arena* a, int depth) noexcept nogil:
    # The value at the cursor, member by member.
    cdef Slice raw, plain
    cdef Buf escaped
    cdef bint first = True
    cdef bint half = False
    cdef int c = json_peek(j)
    if depth == 0 or c != b'{' and c != b'[':
        if c == b'"' and json_string(j, &raw):
            fuzz_must(text_unescape(raw, a, &plain, &half) and (half or text_is_utf8(plain)),
                      b"a text that is not UTF-8")
            if not half:
                buf_init(&escaped)
                text_escape(&escaped, plain)
                fuzz_must(fuzz_json_is(slice_of(escaped.data, escaped.len)), b"a text written as none")
                buf_free(&escaped)
        elif c != b'"':
            json_skip(j, NULL)
        return
    json_enter(j, <char>c)
    while json_member(j, &first, &raw) if c == b'{' else json_element(j, &first):
        if c == b'{':
            fuzz_must(text_unescape(raw, a, &plain, &half), b"a key that is no text")
        fuzz_value(j, a, depth - 1)

cdef void fuzz_items(PushReq* q) noexcept nogil:
    # What was accepted is what it says.
    cdef PushItem* it
    cdef int i, k
    for i in range(q.n):
        it = &q.items[i]
        if it.run != NULL:
            pushrun_expand(it.run, it, it.run.items)
            for k in range(it.run.n):
                fuzz_item(&it.run.items[k])
        else:
            fuzz_item(it)

cdef void fuzz_item(PushItem* it) noexcept nogil:
    cdef Buf literal
    fuzz_must(0 < it.queue.n <= NAME_MAX and text_is_utf8(it.queue) and memchr(it.queue.p, 0, it.queue.n) == NULL,
              b"a queue that is no name")
    fuzz_must(it.part.n <= NAME_MAX and text_is_utf8(it.part), b"a partition that is no name")
    fuzz_must(it.txid.p == NULL or text_is_utf8(it.txid), b"a transactionId that is no text")
    fuzz_must(fuzz_json_is(it.payload), b"a payload that is no JSON")
    buf_init(&literal)
    pushreply_txid(&literal, it)
    fuzz_must(fuzz_json_is(slice_of(literal.data, literal.len)), b"a transactionId that cannot be answered")
    buf_free(&literal)
    if it.more != NULL:
        fuzz_touch(it.more.due)
        fuzz_touch(it.more.headers)

cdef void fuzz_json(const uint8_t* data, size_t n) noexcept nogil:
    cdef Fuzz f
    cdef Json j
    cdef PushReq push
    cdef AckReq ack
    cdef TxReq tx
    cdef CycleReq cycle
    cdef LeaseReq lease
    cdef ApiError* e = &f.tools.error
    cdef Slice raw
    cdef bint walked, plain, ended
    cdef int i
    cdef char* bare = <char*>malloc(n if n else 1)
    memcpy(bare, data, n)
    fuzz_open(&f, data, n)
    # in one walk, and byte by byte in memory that ends with the text
    json_open(&j, f.text, JSON_DEPTH)
    json_padded(&j)
    walked = json_skip(&j, &raw) and json_end(&j)
    json_open(&j, slice_of(bare, n), JSON_DEPTH)
    plain = json_skip(&j, &raw) and json_end(&j)
    fuzz_must(walked == plain, b"JSON to one reader, none to the other")
    json_open(&j, slice_of(bare, n), JSON_DEPTH)
    fuzz_value(&j, &f.arena, 100)
    ended = j.error == NULL and json_end(&j)
    fuzz_must(ended == plain or not plain, b"JSON, but not member by member")
    free(bare)
    memset(&push, 0, sizeof(push))       # pushitems_read does it, of which this is the part for JSON
    for i in range(6):
        e.status = 0
        e.text[0] = 0
        if i == 0 and pushitems_parse(f.text, &f.tools, &push):
            pushrun_join(&push, &f.arena)
            fuzz_items(&push)
        elif i == 1 and ackbody_parse(f.text, True, &f.tools, &ack):
            fuzz_must(ack.n == 1, b"one acknowledgment that is not one")
        elif i == 2 and ackbody_parse(f.text, False, &f.tools, &ack):
            fuzz_must(ack.n <= 1000, b"more acknowledgments than may be")
        elif i == 3 and txbody_read(slice_lit(b""), f.text, &f.tools, &tx):
            fuzz_must(0 < tx.n <= 1000, b"more operations than may be")
        elif i == 4 and cyclebody_parse(f.text, &f.tools, &cycle):
            fuzz_items(&cycle.push)
        elif i == 5:
            leasebody_parse(slice_lit(b"/api/v1/lease/0/extend"), f.text, &f.arena, &lease, e)
        if e.status:
            fuzz_refusal(e)
    fuzz_close(&f)

# ---- forms of a push ------------------------------------------------------------------------------------------------

cdef void fuzz_push(const uint8_t* data, size_t n, Slice headers, Slice query) noexcept nogil:
    cdef Fuzz f
    cdef PushReq q
    fuzz_open(&f, data, n)
    if pushitems_read(headers, query, f.text, &f.tools, &q):
        fuzz_items(&q)
    else:
        fuzz_refusal(&f.tools.error)
    fuzz_close(&f)

cdef void fuzz_arrow(const uint8_t* data, size_t n) noexcept nogil:
    fuzz_push(data, n, slice_lit(b"content-type: application/vnd.apache.arrow.stream\r\n"), slice_lit(b"queue=q"))

cdef void fuzz_frames(const uint8_t* data, size_t n) noexcept nogil:
    cdef Fuzz f
    cdef TxReq q
    cdef int i
    fuzz_push(data, n, slice_lit(b"content-type: application/x-queen-push\r\n"), slice_of(NULL, 0))
    fuzz_open(&f, data, n)
    if txbody_read(slice_lit(b"content-type: application/x-queen-push\r\n"), f.text, &f.tools, &q):
        for i in range(q.n):
            if q.ops[i].kind == TX_PUSH:
                fuzz_item(q.ops[i].push)
    else:
        fuzz_refusal(&f.tools.error)
    fuzz_close(&f)

cdef void fuzz_lines(const uint8_t* data, size_t n) noexcept nogil:
    if n:
        fuzz_push(data + 1, n - 1, slice_lit(b"content-type: application/x-ndjson\r\n"),
                  slice_lit(b"queue=q&payload=line") if data[0] & 1 else slice_lit(b"queue=q"))

cdef void fuzz_events(const uint8_t* data, size_t n) noexcept nogil:
    # Header lines, a blank line, the body.
    cdef const char* line = b"POST /api/v1/events/q HTTP/1.1\r\nHost: h\r\n"
    cdef size_t begin = strlen(line)
    cdef Fuzz f
    cdef HeadLimits limits
    cdef Head h
    cdef PushReq q
    cdef int i
    cdef Slice value, rest
    cdef char* whole = <char*>malloc(begin + n)
    limits.max_head = 32768
    limits.max_target = 512
    limits.max_body = FUZZ_BODY
    memcpy(whole, line, begin)
    memcpy(whole + begin, data, n)
    if head_parse(whole, begin + n, &limits, &h) > 0 and slice_is(h.path, b"/api/v1/events/q"):
        fuzz_open(&f, <const uint8_t*>whole + h.size, begin + n - h.size)
        if eventitem_read(h.headers, True, h.path, h.query, f.text, &f.tools, &q):
            fuzz_must(q.n <= 1000, b"more events than may be")
            fuzz_items(&q)
        else:
            fuzz_refusal(&f.tools.error)
        fuzz_close(&f)
    free(whole)

# ---- failover files -------------------------------------------------------------------------------------------------

cdef void fuzz_spool(const uint8_t* data, size_t n) noexcept nogil:
    # The first byte: how much the reader sees at a time; whether checksums are set right first, which no fuzzer finds.
    cdef char* copy
    cdef char* seen
    cdef PushItem it
    cdef Extras x
    cdef Buf again
    cdef int64_t since, also
    cdef size_t at = 0
    cdef size_t size, have, want, window, left, rest
    cdef uint32_t sum
    cdef int found
    if n < 2:
        return
    window = 1 + (data[0] >> 1)
    left = n - 1
    copy = <char*>malloc(left)
    memcpy(copy, data + 1, left)
    if data[0] & 1:
        while at + SPOOL_HEAD <= left:
            rest = le32(copy + at + 4)
            if le32(copy + at) == SPOOL_MARK and rest <= left - at - SPOOL_HEAD:
                sum = htole32(spool_record_sum(copy + at, rest))
                memcpy(copy + at + 8, &sum, 4)
                at += SPOOL_HEAD + rest
            else:
                at += 1
    at = 0
    want = window
    while at < left:
        have = want if want < left - at else left - at
        seen = <char*>malloc(have)
        memcpy(seen, copy + at, have)
        found = spool_record_next(seen, have, left - at, &it, &x, &since, &size)
        if found == SPOOL_MORE:
            fuzz_must(have < size <= (left - at if left - at > SPOOL_HEAD else <size_t>SPOOL_HEAD),
                      b"a record that goes on behind its file")
            want = size
        else:
            fuzz_must(0 < size <= have, b"a reader that stands still")
            if found == SPOOL_RECORD:
                fuzz_must(fuzz_inside(it.queue, seen, have) and fuzz_inside(it.part, seen, have)
                          and fuzz_inside(it.payload, seen, have), b"a record outside of its bytes")
                fuzz_touch(it.queue)
                fuzz_touch(it.part)
                fuzz_touch(it.payload)
                fuzz_touch(x.due)
                fuzz_touch(x.seal)
                fuzz_touch(x.headers)
                fuzz_touch(x.trace)
                fuzz_touch(x.text)
                fuzz_touch(x.sub)
            at += size
            want = window
        free(seen)
    free(copy)

cdef inline bint fuzz_inside(Slice s, const char* p, size_t n) noexcept nogil:
    return s.n == 0 or p <= s.p and s.p + s.n <= p + n

# ---- packets of other daemons ----------------------------------------------------------------------------------------

cdef void fuzz_packet(const uint8_t* data, size_t n) noexcept nogil:
    # The first byte: with a secret or without; whether the HMAC is set right first, which no fuzzer finds.
    cdef const char* key = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    cdef char[PACKET_MOST] again
    cdef uint64_t[PACKET_ENTRIES] entries
    cdef Slice secret
    cdef Notice m
    cdef char* copy
    cdef int i, verdict
    if n < 1:
        return
    secret = slice_of(key, 64 if data[0] & 1 else 0)
    copy = <char*>malloc(n)
    memcpy(copy, data + 1, n - 1)
    if data[0] & 2 and n - 1 >= PACKET_HEAD:
        memset(copy + PACKET_TAG, 0, PACKET_TAG_SIZE)
        if secret.n:
            HMAC(EVP_sha256(), secret.p, <int>secret.n, <const unsigned char*>copy, n - 1,
                 <unsigned char*>copy + PACKET_TAG, NULL)
    verdict = notice_read(copy, n - 1, secret, &m)
    if verdict == PACKET_GOOD:
        fuzz_must(0 <= m.n <= PACKET_ENTRIES and strlen(m.name) < PEER_NAME, b"a packet out of bounds")
        for i in range(m.n):
            entries[i] = notice_entry(copy, i)
        fuzz_must(notice_write(again, &m, entries, secret) == n - 1, b"a packet of another length")
        if secret.n or data[0] & 2:
            fuzz_must(memcmp(again, copy, 76) == 0, b"a packet read as another")
            fuzz_must(memcmp(again + PACKET_HEAD, copy + PACKET_HEAD, n - 1 - PACKET_HEAD) == 0, b"other entries")
        fuzz_senders(&m, data[0])
    free(copy)

cdef void fuzz_senders(const Notice* m, int many) noexcept nogil:
    # The same packet from more senders than are remembered, twice: heeded once at most with a secret, always without.
    cdef Senders* all = <Senders*>calloc(1, sizeof(Senders))
    cdef Notice one = m[0]
    cdef bint gap
    cdef int i, first, second
    all.dead_us = 1000
    all.verified = many & 1
    for i in range(many):
        one.name[0] = <char>(33 + i % 94)
        first = notice_sender_take(all, &one, i, <int64_t>m.sent_us, &gap)
        second = notice_sender_take(all, &one, i, <int64_t>m.sent_us, &gap)
        fuzz_must((second == PACKET_GOOD) != all.verified, b"a packet heeded twice, or never")
        fuzz_must(first == PACKET_GOOD or all.verified, b"a sender that nobody vouches for crowds another one out")
        fuzz_must(all.n <= SENDERS_MOST, b"more senders than there is room for")
    free(all)

# ---- which ----------------------------------------------------------------------------------------------------------

ctypedef void (*FuzzTarget)(const uint8_t*, size_t) noexcept nogil
cdef FuzzTarget fuzz_chosen = NULL

cdef public int fuzz_choose(const char* name):
    """0: it is known, and everything is ready."""
    global fuzz_chosen, strict
    targets = {b"head": <uintptr_t>fuzz_head, b"chunk": <uintptr_t>fuzz_chunk, b"json": <uintptr_t>fuzz_json,
               b"lines": <uintptr_t>fuzz_lines, b"arrow": <uintptr_t>fuzz_arrow, b"frames": <uintptr_t>fuzz_frames,
               b"events": <uintptr_t>fuzz_events, b"spool": <uintptr_t>fuzz_spool,
               b"packet": <uintptr_t>fuzz_packet}
    if name not in targets:
        return 1
    fuzz_chosen = <FuzzTarget><uintptr_t>targets[name]
    strict = True
    head_open()
    uuid_open(&fuzz_ids)
    return 0

cdef public int fuzz_one(const uint8_t* data, size_t n) noexcept nogil:
    fuzz_chosen(data, n)
    return 0
