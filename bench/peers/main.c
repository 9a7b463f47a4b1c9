/* peers WIRE HOST PORT QUEUE create|count                  WIRE: nats, natsids, quorum, classic, pgmq (HOST: a connection string)
 * peers WIRE HOST PORT QUEUE run WARM SECONDS ROLE...
 *
 * ROLE is `push` or `pop` followed by comma-separated settings:
 *   push,conns=64,items=1,rate=0,count=0     items: messages a connection has in flight; the next ones go out when all are confirmed
 *   pop,conns=16,items=50,count=0            items: messages asked for, and acknowledged, at once
 * rate > 0: messages per second on a fixed schedule, latency from the scheduled start. count: stop after so many messages.
 * `create` makes the queue, `count` prints how many messages it holds. `run` prints `start` and `stop` when the measured window begins and
 * ends, then one line of JSON. Exit 1: the server refused or went away. */
#define _GNU_SOURCE
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { TEMPLATES = 4096, FINISH_SECONDS = 15, SUBJECTS = 1000 };
struct Peers peers;
static Task *tasks;
static Link *links;
static int n_links;
static Text templates[TEMPLATES];
static size_t order_at[TEMPLATES], time_at[TEMPLATES];

void fail(const char *why) {
    fprintf(stderr, "peers: %.300s\n", why);
    exit(1);
}

const char *message_next(Link *l, size_t *len) {
    static uint64_t order;
    unsigned i = (unsigned)(order % TEMPLATES);
    digits_write(templates[i].p + order_at[i], 8, order++);
    digits_write(templates[i].p + time_at[i], 16, (uint64_t)(l->began + peers.wall_offset));
    *len = templates[i].len;
    return templates[i].p;
}

static void request(Link *l) {
    l->waiting = l->task->items;
    peers.wire->publish(l, l->task->items);
}

static void schedule_run(Task *t) {
    while (t->idle && t->next_due <= peers.now && !peers.stopping) {
        Link *l = t->idle;
        t->idle = l->idle_next;
        l->began = t->next_due;
        t->due_exact += 1e6 * t->items / t->rate;
        t->next_due = (int64_t)t->due_exact;
        request(l);
        if (peers.wire != &pgmq_wire) link_flush(l);
    }
}

static void link_next(Link *l) {
    Task *t = l->task;
    if (peers.stopping || t->finished) return;
    if (t->rate > 0) {
        l->idle_next = t->idle;
        t->idle = l;
    } else {
        l->began = peers.now;
        request(l);
    }
}

void link_confirmed(Link *l, int n) {
    Task *t = l->task;
    t->stored += (uint64_t)n;
    l->waiting -= n;
    if (l->waiting > 0) return;
    peers.now = clock_of(CLOCK_MONOTONIC);
    if (peers.measuring) {
        t->requests++;
        t->messages += (uint64_t)t->items;
        hist_add(&t->latency, peers.now - l->began);
    }
    if (t->count && (int64_t)t->stored >= t->count) t->finished = true;
    link_next(l);
}

void link_delivered(Link *l, const char *payload, size_t len) {
    Task *t = l->task;
    t->taken++;
    const char *at = memmem(payload, len, "\"at\":", 5);
    if (!at) { link_error(l, payload, len); return; }
    if (peers.measuring) hist_add(&t->delivery, clock_of(CLOCK_MONOTONIC) + peers.wall_offset - atoll(at + 5));
}

void link_acked(Link *l, int n) {
    Task *t = l->task;
    t->acked += (uint64_t)n;
    if (peers.measuring) { t->requests++; t->messages += (uint64_t)n; }
    if (t->count && (int64_t)t->acked >= t->count) t->finished = true;
}

void link_error(Link *l, const char *why, size_t len) {
    Task *t = l->task;
    t->errors++;
    if (!t->last_error[0]) snprintf(t->last_error, sizeof t->last_error, "%.*s", (int)(len < 150 ? len : 150), why);
}

static Task *task_parse(char *text) {
    Task *t = calloc(1, sizeof *t);
    char *save = NULL, *word = strtok_r(text, ",", &save);
    t->push = !strcmp(word, "push");
    if (!t->push && strcmp(word, "pop")) fail("a role is push or pop");
    snprintf(t->name, sizeof t->name, "%s", word);
    t->conns = t->push ? 64 : 16;
    t->items = t->push ? 1 : 50;
    while ((word = strtok_r(NULL, ",", &save))) {
        char *v = strchr(word, '=');
        if (!v) fail("a setting has no value");
        *v++ = 0;
        if (!strcmp(word, "conns")) t->conns = atoi(v);
        else if (!strcmp(word, "items")) t->items = atoi(v);
        else if (!strcmp(word, "rate")) t->rate = atof(v);
        else if (!strcmp(word, "count")) t->count = atoll(v);
        else fail("unknown setting");
    }
    if (t->conns < 1 || t->items < 1 || t->items > ITEMS_MAX) fail("impossible role");
    return t;
}

static void report(double seconds, double cpu) {
    printf("{\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"roles\":[", seconds, cpu);
    for (Task *t = tasks; t; t = t->next) {
        printf("{\"name\":\"%s\",\"requests\":%lu,\"messages\":%lu,\"errors\":%lu,\"stored\":%lu,\"taken\":%lu,\"acked\":%lu",
               t->name, t->requests, t->messages, t->errors, t->stored, t->taken, t->acked);
        hist_print("", &t->latency);
        hist_print("delivery_", &t->delivery);
        printf(",\"error\":\"");
        text_told(t->last_error);
        printf("\"}%s", t->next ? "," : "");
    }
    printf("]}\n");
}

static bool unfinished(void) {
    for (int i = 0; i < n_links; i++) if (links[i].task->push && links[i].waiting > 0) return true;
    return false;
}

static bool all_finished(void) {
    for (Task *t = tasks; t; t = t->next) if (!t->finished) return false;
    return true;
}

static void begin(void) {
    for (int i = 0; i < n_links; i++) {
        Link *l = &links[i];
        peers.wire->open(l);
        if (l->task->push) peers.wire->publisher(l);
        link_watch(l);
    }
    peers.now = clock_of(CLOCK_MONOTONIC);
    peers.wall_offset = clock_of(CLOCK_REALTIME) - peers.now;
    for (Task *t = tasks; t; t = t->next) t->next_due = (int64_t)(t->due_exact = (double)peers.now + 200000);
    for (int i = n_links - 1; i >= 0; i--) { /* consumers stand behind the publishers, and begin before them */
        Link *l = &links[i];
        if (l->task->push) link_next(l); else peers.wire->consumer(l);
        if (peers.wire != &pgmq_wire) link_flush(l);
    }
    for (int i = 0; i < n_links; i++) if (!links[i].task->push) peers.wire->event(&links[i]); /* what came with the greeting */
}

static void run(int64_t warm, int64_t length) {
    begin();
    int64_t starts = peers.now + warm, ends = 0, finish_by = 0;
    double cpu = 0, seconds = 0;
    for (;;) {
        peers.now = clock_of(CLOCK_MONOTONIC);
        if (!ends && peers.now >= starts) {
            peers.measuring = true;
            starts = peers.now;
            ends = starts + length;
            cpu = cpu_seconds();
            puts("start"); fflush(stdout);
        }
        if (peers.measuring && (peers.now >= ends || all_finished())) {
            peers.measuring = false;
            peers.stopping = true;
            seconds = (double)(peers.now - starts) / 1e6;
            cpu = cpu_seconds() - cpu;
            finish_by = peers.now + FINISH_SECONDS * 1000000LL;
            puts("stop"); fflush(stdout);
        }
        if (peers.stopping && (!unfinished() || peers.now > finish_by)) break;
        int64_t until = peers.stopping ? finish_by : ends ? ends : starts;
        for (Task *t = tasks; t; t = t->next) if (t->rate > 0 && t->idle && !peers.stopping && t->next_due < until) until = t->next_due;
        int64_t us = until > peers.now ? until - peers.now : 0;
        struct timespec pause = {us / 1000000, us % 1000000 * 1000};
        struct epoll_event events[64];
        int n = epoll_pwait2(peers.epoll, events, 64, &pause, NULL);
        peers.now = clock_of(CLOCK_MONOTONIC);
        for (int i = 0; i < n; i++) {
            Link *l = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) link_flush(l);
            if (events[i].events & ~(uint32_t)EPOLLOUT) peers.wire->event(l);
        }
        for (Task *t = tasks; t; t = t->next) if (t->rate > 0) { peers.now = clock_of(CLOCK_MONOTONIC); schedule_run(t); }
    }
    if (unfinished()) fail("confirms are missing");
    report(seconds, cpu);
}

int main(int argc, char **argv) {
    if (argc < 6) { fprintf(stderr, "usage: peers WIRE HOST PORT QUEUE create|count|run ...\n"); return 2; }
    peers.wire = !strncmp(argv[1], "nats", 4) ? &nats_wire : !strcmp(argv[1], "pgmq") ? &pgmq_wire : &amqp_wire;
    peers.kind = argv[1];
    peers.host = argv[2];
    peers.port = atoi(argv[3]);
    peers.queue = argv[4];
    peers.keys = SUBJECTS;
    if (strcmp(argv[5], "run")) {
        Link *l = calloc(1, sizeof *l);
        peers.wire->open(l);
        if (!strcmp(argv[5], "create")) peers.wire->create(l);
        else if (!strcmp(argv[5], "count")) printf("%ld\n", peers.wire->count(l));
        else fail("create, count or run");
        return 0;
    }
    if (argc < 9) fail("run WARM SECONDS ROLE...");
    Task **tail = &tasks;
    for (int i = 8; i < argc; i++) { *tail = task_parse(argv[i]); n_links += (*tail)->conns; tail = &(*tail)->next; }
    links = calloc((size_t)n_links, sizeof *links);
    int at = 0;
    for (Task *t = tasks; t; t = t->next) for (int i = 0; i < t->conns; i++) { links[at].number = at; links[at++].task = t; }
    for (int i = 0; i < TEMPLATES; i++) payload_build(&templates[i], &order_at[i], &time_at[i]);
    peers.epoll = epoll_create1(EPOLL_CLOEXEC);
    run((int64_t)(atof(argv[6]) * 1e6), (int64_t)(atof(argv[7]) * 1e6));
    return 0;
}
