# Reads GET /api/v1/stream/*: the parts of its query that a pop does not have (credit, heartbeat, release, window). In:
# a request. Out: a pop and a FeedReq, or a refusal.

cdef enum:
    FEED_CREDIT = 100         # messages without an acknowledgment
    FEED_BEAT_S = 15

cdef bint feed_window(PopReq* q, FeedReq* more, ApiError* e) noexcept nogil:
    # Checks `window`: each pop of the stream then brings one window, whole.
    if not 1 <= more.window <= BATCH_MAX:
        return refuse(e, b"window must be a whole number from 1 to 10000")
    if q.batch_given or q.partitions_given and q.partitions != 1:
        return refuse(e, b"window stands instead of batch and partitions")
    if more.credit and more.credit < more.window:
        return refuse(e, b"credit must be at least window")
    q.window = True
    q.batch = more.window
    q.partitions = 1
    return True

cdef bint feed_parse(int route, Slice path, Slice query, Arena* a, const Settings* s, PopReq* q, FeedReq* more,
                     ApiError* e) noexcept nogil:
    cdef ParamValue[POP_PARAMS] v
    if not (params_read(query, pop_params, POP_PARAMS, OF_STREAM, v, a, e)
            and pop_asked(route, path, v, a, s, q, e)):
        return False
    if q.frames:
        return refuse(e, b"frames are for pops; a stream is written in JSON")
    more.credit = param_number(&v[ASKED_CREDIT], 0)
    if v[ASKED_CREDIT].given and not 1 <= more.credit <= BATCH_MAX:
        return refuse(e, b"credit must be a whole number from 1 to 10000")
    more.beat_s = param_number(&v[ASKED_HEARTBEAT], FEED_BEAT_S)
    if not 1 <= more.beat_s <= FEED_BEAT_MOST_S:
        return refuse(e, b"heartbeat must be a whole number from 1 to 600")
    more.window = param_number(&v[ASKED_WINDOW], 0)
    if v[ASKED_WINDOW].given and not feed_window(q, more, e):
        return False
    more.release = v[ASKED_RELEASE].yes
    more.release_given = v[ASKED_RELEASE].text.n != 0
    if not q.batch_given and not q.window:
        q.batch = more.credit if more.credit else FEED_CREDIT
    q.wait = True
    q.autopilot = False
    return True
