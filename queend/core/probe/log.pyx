# Test seams for log lines.

def probe_log(bytes level, bytes event, detail, bytes hidden=None):
    """Writes one line to standard error; detail: bytes without NUL, or None. hidden: a text that is never written."""
    global log_hidden
    cdef const char* text = NULL
    cdef char* before = log_hidden
    if detail is not None:
        text = <bytes>detail
    if hidden is not None:
        log_hidden = hidden
    log_line(level, event, text)
    log_hidden = before
