# Groups that want a scan, and groups in the order of their last pops. In: groups that a pop, a reload or a lost answer
# makes worth a scan; a group when a pop looks at it. Out: the list of groups to scan (find/scanner); groups that may be
# given up (find/retire). Owner: the process; guarded by book.lock.

# ---- groups that want a scan -----------------------------------------------------------------------------------------
# A scan finds messages and leases that this process has no notice of.

cdef inline void group_list_scan(Group* g) noexcept nogil:
    # Puts a group at the head of the list. Requires book.lock.
    g.scan_listed = True
    g.scan_next = book.scan_first
    book.scan_first = g
    book.n_scans += 1

cdef void group_want_scan(Group* g) noexcept nogil:
    # Adds a group whose scan is wanted to the list. Requires book.lock.
    if g.scan == SCAN_WANTED and not g.scan_listed:
        g.scan_after = 0
        group_list_scan(g)

cdef void group_unlist_scan(Group* g) noexcept nogil:
    # Takes a group from the list. Requires book.lock.
    cdef Group** link = &book.scan_first
    if not g.scan_listed or g.scan == SCAN_RUNNING:
        return                # its scan may run: that holds a pin
    while link[0] is not g:
        link = &link[0].scan_next
    link[0] = g.scan_next
    g.scan_listed = False
    book.n_scans -= 1

cdef void group_rescan(Group* g) noexcept nogil:
    # Wants another scan, as everything known may be wrong (seek, configure). Requires book.lock.
    cdef bint done = g.scan == SCAN_DONE
    group_scan_later(g)
    if done:
        group_want_scan(g)

cdef void group_scan_later(Group* g) noexcept nogil:
    # Wants another scan, which the group's next pop begins. Requires book.lock.
    if g.scan == SCAN_DONE:
        g.scan = SCAN_WANTED
    elif g.scan != SCAN_WANTED:
        g.scan_twice = True

# ---- scans that rest -------------------------------------------------------------------------------------------------
# Above CURSORS_KEPT cursors, the scan of a group rests after a page if the group has something ready and no pop waits
# for it. The next page is read when pops have taken as many partitions as were ready then, or find too few. So a group
# takes about two cursors for each partition that its pops take, and each partition gets its turn.

cdef inline bint group_rests(const Group* g) noexcept nogil:
    # Returns True if the group's scan has begun, and goes on with a pop. Requires book.lock.
    return g.scan == SCAN_PAUSED and not g.scan_listed

cdef void group_resume_scan(Group* g, int took, bint more) noexcept nogil:
    # Handles a pop of a group whose scan rests. took: the partitions it takes; more: it wants more of them. Adds the
    # group to the list if it is time. Requires book.lock.
    g.scan_rests -= took
    if g.scan_rests <= 0 or more:
        group_list_scan(g)

# ---- groups in the order of their last pops --------------------------------------------------------------------------
# They give the number of cursors two bounds. Above CURSORS_KEPT, groups without a pop in the last 1.5 s are given up,
# the oldest first. Above CURSORS_MOST the others are given up too, unless a pop waits for them. The next pop of such a
# group finds it by its name and scans it, as after a start. Above CURSORS_MOST, a new message also makes no cursor for
# groups without a waiting pop. They are scanned when the next pop comes.

cdef enum:
    CURSORS_KEPT = 200000     # of all groups together, about 40 MB
    CURSORS_MOST = 600000     # about 120 MB
    UNUSED_TICKS = 3          # half seconds
    UNUSED_LOOKED = 64        # groups that are looked at to find one
    UNUSED_TURN = 4096        # groups that one tick gives up

cdef inline void group_used(Group* g) noexcept nogil:
    # Puts the group behind all others, once a tick at most.
    if g.used == book.ticks and g.listed:
        return
    group_unlist(g)
    g.used = book.ticks
    g.listed = True
    link_add(<Links*>&book.used_first, &g.link)

cdef void group_unlist(Group* g) noexcept nogil:
    if g.listed:
        link_del(<Links*>&book.used_first, &g.link)
    g.listed = False

cdef bint group_needed(Group* g) noexcept nogil:
    # Returns True if a pop waits for the group. Also if it has what only it knows: leases of feeds, tokens of rates.
    # Requires book.lock.
    return (g.n_wait or g.n_wait_only or g.n_paced or g.n_handing or g.n_fed or g.queue.shared
            or waiters_name_for(g.queue, g))

cdef Group* group_next_unused(bint recent) noexcept nogil:
    # Returns the group that was asked for least recently, if it may be given up; it leaves the order. NULL if none may.
    # recent: also if it was asked for in the last 1.5 s.
    cdef Group* g
    cdef int looked
    for looked in range(UNUSED_LOOKED):
        g = book.used_first
        if g == NULL or (book.ticks - g.used < UNUSED_TICKS and not recent):
            return NULL
        group_unlist(g)
        if g.dead or g.queue.dead:
            continue          # retired, or its next pop finds it again
        if not group_needed(g) and g.scan != SCAN_RUNNING and not (g.scan == SCAN_PAUSED and g.scan_listed):
            return g          # nor does a scan read it
        group_used(g)
    return NULL
