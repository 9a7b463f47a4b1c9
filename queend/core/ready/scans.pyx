# Groups that want a scan for work this process was not told of; find/discover does it. In: a group. Out: the list of
# such groups. Guarded by book.lock.

cdef void scan_want(Group* g) noexcept nogil:
    # Adds a group whose scan is wanted to the list. Requires book.lock.
    if g.scan == SCAN_WANTED and not g.scan_listed:
        g.scan_listed = True
        g.scan_after = 0
        g.scan_next = book.scan_first
        book.scan_first = g
        book.n_scans += 1

cdef void scan_unlist(Group* g) noexcept nogil:
    # Takes a group from the list. Requires book.lock.
    cdef Group** link = &book.scan_first
    if not g.scan_listed or g.scan == SCAN_RUNNING:
        return                # its scan may run: that holds a pin
    while link[0] is not g:
        link = &link[0].scan_next
    link[0] = g.scan_next
    g.scan_listed = False
    book.n_scans -= 1

cdef void scan_again(Group* g) noexcept nogil:
    # Wants another scan, as everything known may be wrong (seek, configure). Requires book.lock.
    if g.scan == SCAN_DONE:
        g.scan = SCAN_WANTED
        scan_want(g)
    elif g.scan != SCAN_WANTED:
        g.scan_twice = True

cdef void scan_give_back(Group* g) noexcept nogil:
    # Puts a running scan at the head of the list, between two pages. The next worker with a free connection goes on
    # with it. A dead group leaves the list. Requires book.lock.
    if g.dead or g.queue.dead:
        g.scan = SCAN_WANTED
        g.scan_listed = False
        return
    g.scan = SCAN_PAUSED
    g.scan_next = book.scan_first
    book.scan_first = g
    book.n_scans += 1
