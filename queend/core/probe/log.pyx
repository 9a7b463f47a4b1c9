# What the test of log lines drives.

def probe_log(bytes level, bytes event, detail):
    """Writes one line to standard error; detail: bytes without NUL, or None."""
    cdef const char* text = NULL
    if detail is not None:
        text = <bytes>detail
    log_line(level, event, text)
