/* Connections: bytes in, bytes out. Greeting waits, measuring never does. */
#define _GNU_SOURCE
#include "peers.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { READ_SIZE = 1 << 16, PATIENCE_MS = 30000 };

void link_connect(Link *l) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)peers.port)};
    if (inet_pton(AF_INET, peers.host, &to.sin_addr) != 1) fail("not an address");
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&to, sizeof to)) fail("no connection");
    int on = 1;
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void link_watch(Link *l) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = l};
    if (epoll_ctl(peers.epoll, EPOLL_CTL_ADD, l->fd, &e)) fail("epoll");
}

void link_consumed(Link *l) {
    if (l->used) memmove(l->in.p, l->in.p + l->used, l->in.len - l->used);
    l->in.len -= l->used;
    l->used = 0;
}

bool link_read(Link *l) {
    link_consumed(l);
    text_room(&l->in, READ_SIZE);
    ssize_t n = recv(l->fd, l->in.p + l->in.len, READ_SIZE, MSG_DONTWAIT);
    if (n > 0) { l->in.len += (size_t)n; return true; }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    fail("the server closed a connection");
}

void link_flush(Link *l) {
    while (l->sent < l->out.len) {
        ssize_t n = send(l->fd, l->out.p + l->sent, l->out.len - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) l->sent += (size_t)n;
        else if (errno == EAGAIN) break;
        else if (errno != EINTR) fail("the server closed a connection");
    }
    bool rest = l->sent < l->out.len;
    if (!rest) l->sent = l->out.len = 0;
    if (rest == l->want_write || !l->task) return;
    struct epoll_event e = {.events = EPOLLIN | (rest ? EPOLLOUT : 0), .data.ptr = l};
    if (!epoll_ctl(peers.epoll, EPOLL_CTL_MOD, l->fd, &e)) l->want_write = rest; /* before link_watch there is nothing to change */
}

void link_wait(Link *l) {
    for (;;) {
        link_flush(l);
        if (link_read(l)) return;
        struct pollfd p = {.fd = l->fd, .events = (short)(POLLIN | (l->sent < l->out.len ? POLLOUT : 0))};
        if (poll(&p, 1, PATIENCE_MS) == 0) fail("no answer");
    }
}
