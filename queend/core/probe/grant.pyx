# Test seams for tokens: patterns of queue names, and the bearer token in the headers.

def probe_glob(bytes pattern, bytes name):
    """Does the name fit the pattern?"""
    return grant_glob_fits(<const char*>pattern, len(pattern), <const char*>name, len(name))

def probe_bearer(bytes headers):
    """The token of header lines, None without an Authorization header."""
    cdef Slice token = gate_bearer(slice_of(<const char*>headers, len(headers)))
    return None if token.p == NULL else slice_bytes(token)
