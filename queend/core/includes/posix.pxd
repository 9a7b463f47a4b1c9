# Sockets, threads and eventfd of POSIX and Linux: only what the core uses.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<sys/types.h>" nogil:
    ctypedef unsigned int socklen_t

cdef extern from "<sys/socket.h>" nogil:
    int AF_INET, AF_INET6, AF_UNSPEC, SOCK_STREAM, SOCK_NONBLOCK, SOCK_CLOEXEC, SOL_SOCKET, SO_REUSEADDR, SO_REUSEPORT
    int SHUT_WR
    struct sockaddr:
        pass
    struct sockaddr_storage:
        uint16_t ss_family
    int socket(int, int, int)
    int setsockopt(int, int, int, const void*, socklen_t)
    int bind(int, const sockaddr*, socklen_t)
    int listen(int, int)
    int accept4(int, sockaddr*, socklen_t*, int)
    int shutdown(int, int)
    int MSG_DONTWAIT, MSG_NOSIGNAL, AF_UNIX, SOCK_DGRAM
    ssize_t sendto(int, const void*, size_t, int, const sockaddr*, socklen_t)
    ssize_t send(int, const void*, size_t, int)
    int getsockname(int, sockaddr*, socklen_t*)

cdef extern from "<sys/un.h>" nogil:
    struct sockaddr_un:
        uint16_t sun_family
        char[108] sun_path

cdef extern from "<sys/prctl.h>" nogil:
    int PR_SET_NAME
    int prctl(int, const char*)

cdef extern from "<netinet/in.h>" nogil:
    int IPPROTO_IPV6, IPV6_V6ONLY, IPPROTO_TCP
    struct in_addr:
        uint32_t s_addr
    struct in6_addr:
        uint8_t[16] s6_addr
    struct sockaddr_in:
        uint16_t sin_port
        in_addr sin_addr
    struct sockaddr_in6:
        uint16_t sin6_port
        in6_addr sin6_addr
    uint16_t ntohs(uint16_t)
    uint32_t ntohl(uint32_t)

cdef extern from "<netinet/tcp.h>" nogil:
    int TCP_USER_TIMEOUT
    int TCP_NOTSENT_LOWAT

cdef extern from "<netdb.h>" nogil:
    int AI_PASSIVE, AI_NUMERICSERV
    struct addrinfo:
        int ai_flags, ai_family, ai_socktype, ai_protocol
        socklen_t ai_addrlen
        sockaddr* ai_addr
        addrinfo* ai_next
    int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**)
    void freeaddrinfo(addrinfo*)
    const char* gai_strerror(int)

cdef extern from "<unistd.h>" nogil:
    int close(int)
    ssize_t read(int, void*, size_t)
    ssize_t write(int, const void*, size_t)
    ssize_t pread(int, void*, size_t, long)
    ssize_t pwrite(int, const void*, size_t, long)
    int fsync(int)
    int fdatasync(int)
    int ftruncate(int, long)
    long lseek(int, long, int)
    int SEEK_END

cdef extern from "<sys/mman.h>" nogil:
    int MADV_DONTNEED, MADV_HUGEPAGE
    int madvise(void*, size_t, int)

cdef extern from "<fcntl.h>" nogil:
    int O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_CLOEXEC, O_DIRECTORY
    int F_DUPFD_CLOEXEC
    int fcntl(int, int, ...)
    int open(const char*, int, ...)
    int openat(int, const char*, int, ...)
    int unlinkat(int, const char*, int)
    int renameat(int, const char*, int, const char*)

cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_NONBLOCK, EFD_CLOEXEC
    int eventfd(unsigned int, int)

cdef extern from "<poll.h>" nogil:
    int POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd*, unsigned long, int)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t*)
    int pthread_sigmask(int, const sigset_t*, sigset_t*)

cdef extern from "<errno.h>" nogil:
    int errno, EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EDQUOT, EFBIG, EINTR, EIO, ENOENT, EMFILE, ENFILE
    int ENOBUFS, ENOMEM, ENOSPC

cdef extern from "<string.h>" nogil:
    char* strerror(int)

cdef extern from "<stddef.h>" nogil:
    ctypedef long ptrdiff_t
