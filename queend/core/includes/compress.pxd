# Declares what the core uses of libzstd, and the part of zlib that unpacks bodies in gzip. Contexts are not shared
# between threads; each worker owns its own.

cdef extern from "zstd.h" nogil:
    ctypedef struct ZSTD_CCtx:
        pass
    ctypedef struct ZSTD_DCtx:
        pass
    unsigned long long ZSTD_CONTENTSIZE_UNKNOWN
    unsigned long long ZSTD_CONTENTSIZE_ERROR
    ZSTD_CCtx* ZSTD_createCCtx()
    size_t ZSTD_freeCCtx(ZSTD_CCtx* c)
    ZSTD_DCtx* ZSTD_createDCtx()
    size_t ZSTD_freeDCtx(ZSTD_DCtx* d)
    size_t ZSTD_compressBound(size_t n)
    size_t ZSTD_compressCCtx(ZSTD_CCtx* c, void* dst, size_t room, const void* src, size_t n, int level)
    ctypedef enum ZSTD_cParameter:
        ZSTD_c_compressionLevel
        ZSTD_c_hashLog
    size_t ZSTD_CCtx_setParameter(ZSTD_CCtx* c, ZSTD_cParameter name, int value)
    size_t ZSTD_compress2(ZSTD_CCtx* c, void* dst, size_t room, const void* src, size_t n)
    ctypedef enum ZSTD_dParameter:
        ZSTD_d_windowLogMax
    ctypedef struct ZSTD_inBuffer:
        const void* src
        size_t size
        size_t pos
    ctypedef struct ZSTD_outBuffer:
        void* dst
        size_t size
        size_t pos
    size_t ZSTD_DCtx_setParameter(ZSTD_DCtx* d, ZSTD_dParameter name, int value)
    size_t ZSTD_decompressStream(ZSTD_DCtx* d, ZSTD_outBuffer* to, ZSTD_inBuffer* from_)
    size_t ZSTD_decompressDCtx(ZSTD_DCtx* d, void* dst, size_t room, const void* src, size_t n)
    unsigned long long ZSTD_getFrameContentSize(const void* src, size_t n)
    size_t ZSTD_findFrameCompressedSize(const void* src, size_t n)
    unsigned int ZSTD_isError(size_t code)

cdef extern from "zstd_errors.h" nogil:
    ctypedef enum ZSTD_ErrorCode:
        ZSTD_error_memory_allocation
    ZSTD_ErrorCode ZSTD_getErrorCode(size_t code)

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
