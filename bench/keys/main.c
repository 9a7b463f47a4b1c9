/* keys PROTOCOL HOST PORT CONNS SECONDS OP KEYS : a closed loop of single operations on keys.
 *
 * PROTOCOL is `http` (POST /api/v1/kv and /api/v1/locks) or `resp` (Redis). OP is put, get, incr or lock; a lock is acquired
 * and released, which counts as one. Values have 100 bytes. KEYS keys are used at random; a lock is its connection's own.
 * Prints `start` and `stop` around the measured window, which begins after 0.5 s, then one line of JSON. */
#define _GNU_SOURCE
#include "load.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WARM_US = 500000, VALUE = 100, CONNS_MAX = 4096 };
enum { OP_PUT, OP_GET, OP_INCR, OP_LOCK };
static const char *ops[] = {"put", "get", "incr", "lock"};
typedef struct { int fd; Text out, in; int64_t began; bool second; char token[24]; } Client;

static Client clients[CONNS_MAX];
static bool resp;
static int op, keys, conns;
static char value[VALUE + 1];
static Hist latency;
static uint64_t done, errors;
static bool measuring;
static char error[160];

static void fail(const char *what) { perror(what); exit(1); }

static void request_write(Client *c) {
    char body[512], key[32];
    int n = 0, number = (int)(c - clients);
    snprintf(key, sizeof key, "%c%07d", op == OP_INCR ? 'n' : 'k', (int)(random_next(random_seeded) % (uint64_t)keys));
    c->out.len = 0;
    if (resp) {
        if (op == OP_PUT) text_print(&c->out, "*3\r\n$3\r\nSET\r\n$8\r\n%s\r\n$%d\r\n%s\r\n", key, VALUE, value);
        if (op == OP_GET) text_print(&c->out, "*2\r\n$3\r\nGET\r\n$8\r\n%s\r\n", key);
        if (op == OP_INCR) text_print(&c->out, "*2\r\n$4\r\nINCR\r\n$8\r\n%s\r\n", key);
        if (op == OP_LOCK && !c->second)
            text_print(&c->out, "*6\r\n$3\r\nSET\r\n$9\r\nl%08d\r\n$4\r\nmine\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n", number);
        if (op == OP_LOCK && c->second) text_print(&c->out, "*2\r\n$3\r\nDEL\r\n$9\r\nl%08d\r\n", number);
        return;
    }
    if (op == OP_PUT)
        n = snprintf(body, sizeof body, "{\"operations\":[{\"op\":\"put\",\"ns\":\"bench\",\"key\":\"%s\",\"value\":\"%.*s\",\"ttlSeconds\":3600}]}", key, VALUE - 2, value);
    if (op == OP_GET) n = snprintf(body, sizeof body, "{\"operations\":[{\"op\":\"get\",\"ns\":\"bench\",\"key\":\"%s\"}]}", key);
    if (op == OP_INCR) n = snprintf(body, sizeof body, "{\"operations\":[{\"op\":\"incr\",\"ns\":\"count\",\"key\":\"%s\",\"ttlSeconds\":3600}]}", key);
    if (op == OP_LOCK && !c->second)
        n = snprintf(body, sizeof body, "{\"operations\":[{\"op\":\"acquire\",\"name\":\"l%08d\",\"owner\":\"mine\",\"ttlSeconds\":30}]}", number);
    if (op == OP_LOCK && c->second) n = snprintf(body, sizeof body, "{\"operations\":[{\"op\":\"release\",\"name\":\"l%08d\",\"token\":%s}]}", number, c->token);
    text_print(&c->out, "POST /api/v1/%s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
               op == OP_LOCK ? "locks" : "kv", load.host, load.port, n, body);
}

static void request_send(Client *c) {
    request_write(c);
    size_t sent = 0;
    while (sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.p + sent, c->out.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) fail("keys: send");
        if (n > 0) sent += (size_t)n;
    }
}

/* The length of the answer at the beginning of c->in; 0: more bytes are needed. */
static size_t answer_length(Client *c) {
    char *end = memmem(c->in.p, c->in.len, resp ? "\r\n" : "\r\n\r\n", resp ? 2 : 4);
    if (!end) return 0;
    if (resp) {
        size_t n = (size_t)(end + 2 - c->in.p);
        long more = c->in.p[0] == '$' ? atol(c->in.p + 1) : -1;
        if (more >= 0) n += (size_t)more + 2;
        return n <= c->in.len ? n : 0;
    }
    char *length = strcasestr(c->in.p, "content-length:");
    size_t n = (size_t)(end + 4 - c->in.p) + (length && length < end ? strtoull(length + 15, NULL, 10) : 0);
    return n <= c->in.len ? n : 0;
}

static bool answer_good(Client *c, size_t n) {
    if (resp) return c->in.p[0] != '-';
    if (memcmp(c->in.p + 9, "200", 3)) return false;
    const char *word = op == OP_GET ? "\"found\":" : op != OP_LOCK ? "\"applied\":true" : c->second ? "\"released\":true" : "\"acquired\":true";
    if (op == OP_LOCK && !c->second) {
        char *token = memmem(c->in.p, n, "\"token\":", 8);
        if (token) snprintf(c->token, sizeof c->token, "%llu", strtoull(token + 8, NULL, 10));
    }
    return memmem(c->in.p, n, word, strlen(word)) != NULL;
}

static void answer_take(Client *c) {
    size_t n;
    while ((n = answer_length(c))) {
        if (!answer_good(c, n)) {
            errors++;
            if (!error[0]) snprintf(error, sizeof error, "%.*s", (int)(n < 150 ? n : 150), c->in.p);
        }
        c->in.len -= n;
        memmove(c->in.p, c->in.p + n, c->in.len);
        c->in.p[c->in.len] = 0;
        c->second = op == OP_LOCK && !c->second;
        if (!c->second) {
            load.now = clock_now();
            if (measuring) { done++; hist_add(&latency, load.now - c->began); }
            c->began = load.now;
        }
        request_send(c);
    }
}

struct Load load;
int64_t clock_now(void) { return clock_of(CLOCK_MONOTONIC); }

int main(int argc, char **argv) {
    if (argc != 8) { fprintf(stderr, "usage: keys PROTOCOL HOST PORT CONNS SECONDS OP KEYS\n"); return 2; }
    resp = !strcmp(argv[1], "resp");
    snprintf(load.host, sizeof load.host, "%s", argv[2]);
    load.port = atoi(argv[3]);
    conns = atoi(argv[4]);
    int64_t length = (int64_t)(atof(argv[5]) * 1e6);
    while (op <= OP_LOCK && strcmp(ops[op], argv[6])) op++;
    keys = atoi(argv[7]);
    if (op > OP_LOCK || conns < 1 || conns > CONNS_MAX || keys < 1) { fprintf(stderr, "keys: impossible\n"); return 2; }
    memset(value, 'v', VALUE);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)load.port)};
    inet_pton(AF_INET, load.host, &to.sin_addr);
    for (int i = 0; i < conns; i++) {
        int one = 1;
        clients[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (clients[i].fd < 0 || connect(clients[i].fd, (struct sockaddr *)&to, sizeof to)) fail("keys: connect");
        setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &clients[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, clients[i].fd, &e)) fail("keys: epoll_ctl");
    }
    int64_t begin = clock_now() + WARM_US, end = begin + length;
    double cpu = 0;
    for (int i = 0; i < conns; i++) { clients[i].began = clock_now(); request_send(&clients[i]); }
    while (load.now < end) {
        struct epoll_event events[64];
        int n = epoll_wait(poll, events, 64, 10);
        load.now = clock_now();
        if (!measuring && load.now >= begin) { measuring = true; cpu = cpu_seconds(); puts("start"); fflush(stdout); }
        for (int i = 0; i < n; i++) {
            Client *c = events[i].data.ptr;
            text_room(&c->in, 4096);
            ssize_t got = recv(c->fd, c->in.p + c->in.len, c->in.cap - c->in.len - 1, 0);
            if (got <= 0) fail("keys: recv");
            c->in.len += (size_t)got;
            c->in.p[c->in.len] = 0;
            answer_take(c);
        }
    }
    puts("stop");
    printf("{\"operations\":%lu,\"seconds\":%.6f,\"errors\":%lu,\"cpu_seconds\":%.6f", done, (double)length / 1e6, errors, cpu_seconds() - cpu);
    hist_print("", &latency);
    printf(",\"error\":\"");
    text_told(error);
    puts("\"}");
    return 0;
}
