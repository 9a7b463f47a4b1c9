# Declares the part of zlib that unpacks bodies in gzip.

cdef extern from "zlib.h" nogil:
    ctypedef struct z_stream:
        unsigned char* next_in
        unsigned int avail_in
        unsigned char* next_out
        unsigned int avail_out
    enum:
        Z_OK
        Z_STREAM_END
        Z_BUF_ERROR
        Z_MEM_ERROR
        Z_NO_FLUSH
    int inflateInit2(z_stream* s, int window_bits)
    int inflateReset(z_stream* s)
    int inflate(z_stream* s, int flush)
    int inflateEnd(z_stream* s)
