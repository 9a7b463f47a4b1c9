/* One keep-alive connection: send a request, read its answer. */
#define _GNU_SOURCE
#include "load.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void conn_watch(Conn *c, int how, bool write) {
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(load.epoll, how, c->fd, &e)) { perror("load: epoll_ctl"); exit(1); }
    c->want_write = write;
}

/* One source address has 28 000 ports: beyond, connections to the loopback come from 127.0.0.2, .3, … in turn. */
enum { CONNS_PER_SOURCE = 20000 };

static void source_bind(int fd) {
    int one = 1, sources = 1 + (load.conns - 1) / CONNS_PER_SOURCE;
    if (sources == 1 || strncmp(load.host, "127.", 4)) return;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002u + load.next_source++ % (uint32_t)sources)};
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from)) { perror("load: bind"); exit(1); }
}

void conn_open(Conn *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)load.port)};
    int one = 1;
    inet_pton(AF_INET, load.host, &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) { perror("load: socket"); exit(1); }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    source_bind(c->fd);
    c->state = CONN_CONNECTING;
    c->in.len = c->body_at = 0;
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) { perror("load: connect"); exit(1); }
    conn_watch(c, EPOLL_CTL_ADD, true);
    load.connecting++;
}

static void conn_close(Conn *c, const char *why) {
    link_close(c);
    bool was_busy = c->state == CONN_BUSY;
    c->state = CONN_CLOSED;
    c->flying = 0;
    c->out.len = c->sent = 0;
    if (was_busy) { c->acking = false; role_error(c, why); }
    if (!load.stopping) conn_open(c);
}

static void conn_flush(Conn *c) {
    while (c->sent < c->out.len) {
        ssize_t n = link_send(c, c->out.p + c->sent, c->out.len - c->sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            if (!c->want_write) conn_watch(c, EPOLL_CTL_MOD, true);
            return;
        }
        if (n < 0) { conn_close(c, "the connection broke while sending"); return; }
        c->sent += (size_t)n;
    }
    if (c->want_write) conn_watch(c, EPOLL_CTL_MOD, false);
}

void conn_send(Conn *c) {
    c->state = CONN_BUSY;
    c->sent = 0;
    conn_flush(c);
}

/* Reads status, length and framing of a complete head. Answers 1, or 0 when more bytes are needed. */
static int head_parse(Conn *c) {
    char *end = memmem(c->in.p, c->in.len, "\r\n\r\n", 4);
    if (!end) return 0;
    c->body_at = (size_t)(end + 4 - c->in.p);
    c->body_len = 0;
    c->chunked = false;
    c->status = c->in.len > 12 ? atoi(c->in.p + 9) : 0;
    for (char *line = memchr(c->in.p, '\n', c->body_at); line && line + 1 < end; line = memchr(line, '\n', (size_t)(end + 2 - line))) {
        line++;
        if ((line[0] | 32) == 'c' && !strncasecmp(line, "content-length:", 15)) c->body_len = strtoull(line + 15, NULL, 10);
        else if ((line[0] | 32) == 't' && !strncasecmp(line, "transfer-encoding: chunked", 26)) c->chunked = true;
    }
    return 1;
}

/* Joins the chunks in place once the last one is there; body_len = joined length. */
static int chunks_join(Conn *c) {
    char *p = c->in.p + c->body_at, *end = c->in.p + c->in.len;
    for (int pass = 0; pass < 2; pass++) {
        char *from = p, *to = p;
        for (;;) {
            char *line = memmem(from, (size_t)(end - from), "\r\n", 2);
            if (!line) return 0;
            size_t n = strtoull(from, NULL, 16);
            from = line + 2;
            if (n + 2 > (size_t)(end - from)) return 0;
            if (!n) break;
            if (pass) memmove(to, from, n);
            to += n;
            from += n + 2;
        }
        c->body_len = (size_t)(to - p);
    }
    return 1;
}

static void conn_answer(Conn *c) {
    while (c->in.len) {
        if (!c->body_at && !head_parse(c)) return;
        if (c->chunked ? !chunks_join(c) : c->in.len < c->body_at + c->body_len) {
            if (!c->chunked) text_room(&c->in, c->body_at + c->body_len - c->in.len + 1);
            return;
        }
        if (c->status == 100) { /* a courtesy of the server: the answer itself follows */
            memmove(c->in.p, c->in.p + c->body_at, c->in.len - c->body_at);
            c->in.len -= c->body_at;
            c->body_at = 0;
            continue;
        }
        size_t at = c->body_at, ends = c->chunked ? c->in.len : at + c->body_len; /* only pipelined answers, which have a length, are followed by another */
        c->body_at = 0;
        c->state = CONN_READY;
        role_answer(c, c->in.p + at, c->body_len);
        memmove(c->in.p, c->in.p + ends, c->in.len - ends);
        c->in.len -= ends;
    }
}

void conn_event(Conn *c, uint32_t events) {
    if (c->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t n = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n);
        if (error) { fprintf(stderr, "load: cannot connect to %s:%d: %s\n", load.host, load.port, strerror(error)); exit(1); }
        if (c->want_write) conn_watch(c, EPOLL_CTL_MOD, false);
        if (!link_ready(c)) return;
        load.connecting--;
        c->state = CONN_READY;
        role_next(c);
        return;
    }
    if (events & EPOLLOUT) conn_flush(c);
    if (c->state == CONN_CLOSED || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    for (;;) {
        text_room(&c->in, 2048);
        size_t room = c->in.cap - c->in.len;
        ssize_t n = link_receive(c, c->in.p + c->in.len, room - 1);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) { conn_close(c, "the server closed the connection"); return; }
        c->in.len += (size_t)n;
        c->in.p[c->in.len] = 0;
        conn_answer(c);
        if ((size_t)n < room - 1 || c->state != CONN_BUSY) return; /* drained; level-triggered epoll calls again otherwise */
    }
}
