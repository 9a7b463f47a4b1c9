# GET /api/v1/stream/…: the parts of its query that a pop does not have (credit, heartbeat, release, window).

cdef enum:
    FEED_CREDIT = 100         # messages without an acknowledgment
    FEED_BEAT_S = 15
    FEED_BEAT_MOST_S = 600

cdef bint feed_window(PopReq* q, FeedReq* more, ApiError* e) noexcept nogil:
    # Each of its pops brings one window, whole.
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
    cdef bint given, yes
    cdef Slice text
    if not pop_parse(route, path, query, a, s, q, e):
        return False
    if q.frames:
        return refuse(e, b"frames are for pops; a stream is written in JSON")
    if not query_number(query, b"credit", a, 0, 1, BATCH_MAX, &more.credit, &given, e):
        return False
    if given and not 1 <= more.credit <= BATCH_MAX:
        return refuse(e, b"credit must be a whole number from 1 to 10000")
    if not query_number(query, b"heartbeat", a, FEED_BEAT_S, 1, FEED_BEAT_MOST_S, &more.beat_s, &given, e):
        return False
    if not 1 <= more.beat_s <= FEED_BEAT_MOST_S:
        return refuse(e, b"heartbeat must be a whole number from 1 to 600")
    if not query_truth(query, b"release", a, &yes, e):
        return False
    if not query_number(query, b"window", a, 0, 1, BATCH_MAX, &more.window, &given, e):
        return False
    if given and not feed_window(q, more, e):
        return False
    more.release = yes
    more.release_given = query_find(query, b"release", a, &text) == 1 and text.n
    if not q.batch_given and not q.window:
        q.batch = more.credit if more.credit else FEED_CREDIT
    q.wait = True
    q.autopilot = False
    return True
