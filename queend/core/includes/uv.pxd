# libuv 1.44 or later: only what the core uses.
from libc.stdint cimport uint64_t, int64_t

from queend.core.includes.posix cimport addrinfo, sockaddr

cdef extern from "<uv.h>" nogil:
    ctypedef struct uv_loop_t:
        void* data
    ctypedef struct uv_handle_t:
        void* data
        uv_loop_t* loop
    ctypedef struct uv_stream_t:
        void* data
        uv_loop_t* loop
        size_t write_queue_size
    ctypedef struct uv_tcp_t:
        void* data
        uv_loop_t* loop
        size_t write_queue_size
    ctypedef struct uv_udp_t:
        void* data
    ctypedef struct uv_async_t:
        void* data
    ctypedef struct uv_timer_t:
        void* data
    ctypedef struct uv_poll_t:
        void* data
    ctypedef struct uv_check_t:
        void* data
    ctypedef struct uv_prepare_t:
        void* data
    ctypedef struct uv_idle_t:
        void* data
    ctypedef struct uv_write_t:
        void* data
        uv_stream_t* handle
    ctypedef struct uv_buf_t:
        char* base
        size_t len
    ctypedef struct uv_mutex_t:
        pass
    ctypedef struct uv_rwlock_t:
        pass
    ctypedef struct uv_cond_t:
        pass
    ctypedef struct uv_sem_t:
        pass
    ctypedef struct uv_getaddrinfo_t:
        void* data
        uv_loop_t* loop
    ctypedef struct uv_req_t:
        void* data
    ctypedef struct uv_work_t:
        void* data
    ctypedef unsigned long uv_thread_t
    ctypedef int uv_os_sock_t

    ctypedef void (*uv_alloc_cb)(uv_handle_t*, size_t, uv_buf_t*) noexcept nogil
    ctypedef void (*uv_read_cb)(uv_stream_t*, ssize_t, const uv_buf_t*) noexcept nogil
    ctypedef void (*uv_write_cb)(uv_write_t*, int) noexcept nogil
    ctypedef void (*uv_close_cb)(uv_handle_t*) noexcept nogil
    ctypedef void (*uv_udp_recv_cb)(uv_udp_t*, ssize_t, const uv_buf_t*, const sockaddr*, unsigned int) noexcept nogil
    ctypedef void (*uv_async_cb)(uv_async_t*) noexcept nogil
    ctypedef void (*uv_timer_cb)(uv_timer_t*) noexcept nogil
    ctypedef void (*uv_poll_cb)(uv_poll_t*, int, int) noexcept nogil
    ctypedef void (*uv_check_cb)(uv_check_t*) noexcept nogil
    ctypedef void (*uv_prepare_cb)(uv_prepare_t*) noexcept nogil
    ctypedef void (*uv_idle_cb)(uv_idle_t*) noexcept nogil
    ctypedef void (*uv_thread_cb)(void*) noexcept nogil

    ctypedef void (*uv_work_cb)(uv_work_t*) noexcept nogil
    ctypedef void (*uv_after_work_cb)(uv_work_t*, int) noexcept nogil
    ctypedef void (*uv_getaddrinfo_cb)(uv_getaddrinfo_t*, int, addrinfo*) noexcept nogil

    ctypedef enum uv_run_mode:
        UV_RUN_DEFAULT
    int UV_READABLE, UV_WRITABLE
    int UV_EOF, UV_EAGAIN, UV_ENOBUFS, UV_EAI_NONAME, UV_EAI_NODATA

    int uv_loop_init(uv_loop_t*)
    int uv_loop_close(uv_loop_t*)
    int uv_run(uv_loop_t*, uv_run_mode)
    uint64_t uv_now(const uv_loop_t*)
    void uv_update_time(uv_loop_t*)

    void uv_close(uv_handle_t*, uv_close_cb)

    int uv_tcp_init(uv_loop_t*, uv_tcp_t*)
    int uv_tcp_open(uv_tcp_t*, uv_os_sock_t)
    int uv_tcp_nodelay(uv_tcp_t*, int)
    int uv_tcp_getpeername(const uv_tcp_t*, sockaddr*, int*)
    int uv_read_start(uv_stream_t*, uv_alloc_cb, uv_read_cb)
    int uv_read_stop(uv_stream_t*)
    int uv_write(uv_write_t*, uv_stream_t*, const uv_buf_t*, unsigned int, uv_write_cb)
    int uv_try_write(uv_stream_t*, const uv_buf_t*, unsigned int)
    int uv_fileno(const uv_handle_t*, int*)

    int uv_udp_init(uv_loop_t*, uv_udp_t*)
    int uv_udp_open(uv_udp_t*, uv_os_sock_t)
    int uv_udp_recv_start(uv_udp_t*, uv_alloc_cb, uv_udp_recv_cb)
    int uv_udp_try_send(uv_udp_t*, const uv_buf_t*, unsigned int, const sockaddr*)

    int uv_async_init(uv_loop_t*, uv_async_t*, uv_async_cb)
    int uv_async_send(uv_async_t*)
    int uv_timer_init(uv_loop_t*, uv_timer_t*)
    int uv_timer_start(uv_timer_t*, uv_timer_cb, uint64_t, uint64_t)
    int uv_timer_stop(uv_timer_t*)
    int uv_poll_init(uv_loop_t*, uv_poll_t*, int)
    int uv_poll_start(uv_poll_t*, int, uv_poll_cb)
    int uv_poll_stop(uv_poll_t*)
    int uv_check_init(uv_loop_t*, uv_check_t*)
    int uv_check_start(uv_check_t*, uv_check_cb)
    int uv_prepare_init(uv_loop_t*, uv_prepare_t*)
    int uv_prepare_start(uv_prepare_t*, uv_prepare_cb)
    int uv_idle_init(uv_loop_t*, uv_idle_t*)
    int uv_idle_start(uv_idle_t*, uv_idle_cb)
    int uv_idle_stop(uv_idle_t*)

    int uv_mutex_init(uv_mutex_t*)
    void uv_mutex_destroy(uv_mutex_t*)
    void uv_mutex_lock(uv_mutex_t*)
    void uv_mutex_unlock(uv_mutex_t*)
    int uv_rwlock_init(uv_rwlock_t*)
    void uv_rwlock_destroy(uv_rwlock_t*)
    void uv_rwlock_rdlock(uv_rwlock_t*)
    void uv_rwlock_rdunlock(uv_rwlock_t*)
    void uv_rwlock_wrlock(uv_rwlock_t*)
    void uv_rwlock_wrunlock(uv_rwlock_t*)
    int uv_cond_init(uv_cond_t*)
    void uv_cond_destroy(uv_cond_t*)
    void uv_cond_broadcast(uv_cond_t*)
    int uv_cond_timedwait(uv_cond_t*, uv_mutex_t*, uint64_t)
    int uv_thread_create(uv_thread_t*, uv_thread_cb, void*)
    int uv_thread_join(uv_thread_t*)
    void uv_sleep(unsigned int)
    int uv_ip4_addr(const char*, int, void*)
    int uv_ip6_addr(const char*, int, void*)
    int uv_ip_name(const sockaddr*, char*, size_t)
    int uv_getaddrinfo(uv_loop_t*, uv_getaddrinfo_t*, uv_getaddrinfo_cb, const char*, const char*, const addrinfo*)
    void uv_freeaddrinfo(addrinfo*)
    int uv_cancel(uv_req_t*)
    int uv_queue_work(uv_loop_t*, uv_work_t*, uv_work_cb, uv_after_work_cb)
    const char* uv_strerror(int)
    int uv_sem_init(uv_sem_t*, unsigned int)
    void uv_sem_destroy(uv_sem_t*)
    void uv_sem_post(uv_sem_t*)
    void uv_sem_wait(uv_sem_t*)
