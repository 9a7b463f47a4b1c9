/* load HOST PORT WARM_SECONDS SECONDS ROLE... : a closed- and open-loop client of the queue protocol.
 *
 * ROLE is `push` or `pop` followed by comma-separated settings, all at their defaults unless given:
 *   push,name=push,queue=bench,queues=1,conns=16,items=100,partitions=1000,spread=random,mark=p,ids=7,rate=0
 *   pop,name=pop,queue=bench,queues=1,conns=16,batch=50,claim=1,group=,lease=0,wait=0,autopilot=0,timeout=30000,delivery=0,mark=,depth=1
 *   both: count=0 (stop after so many messages; a quarter of them ends the warm-up), least=0 (the window lasts until so many
 *   messages, at most LEAST_SECONDS longer than asked)
 *   push: form=json (plain, framed: the 2.x client's bodies, with spread=block only), counts=0 (answers in numbers); pop: frames=0
 * into: with lease=1, a queue: the acknowledgements of an answer go in one transaction that pushes as many messages there.
 * spread: partitions of a request's items at random; `cycle`: each next item the next one of a fixed shuffle of all; `block`: all in one, in turn.
 * queues > 1: the queues are named bench00000, bench00001, …; items take them in turn, connection i of a pop role asks number i modulo queues.
 * autopilot: pops say so instead of batch and claim, as the 2.x client does by default.
 * depth: pops in flight per connection, one behind the other.
 * mark: the first letter of the partitions' names; a pop role with one measures delivery of such partitions only.
 * rate > 0 sends on a fixed schedule whatever the server does, and latency counts from the scheduled start.
 * LOAD_CA=FILE in the environment: all connections are TLS, and the server's certificate is of an authority in that file.
 * LOAD_EVERY=SECONDS in the environment: a line `part {...}` with the figures of each such piece of the window.
 * Prints `start` and `stop` when the measured window begins and ends, then one line of JSON. Exit 1: no such server. */
#define _GNU_SOURCE
#include "load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

enum { CONNECTING_AT_ONCE = 128, FINISH_SECONDS = 15, LEAST_SECONDS = 60 };
struct Load load;
static Role *roles;
static Conn *conns;
static int n_conns;

int64_t clock_now(void) { return clock_of(CLOCK_MONOTONIC); }

void role_error(Conn *c, const char *why) {
    Role *r = c->role;
    r->errors++;
    if (!r->last_error[0]) snprintf(r->last_error, sizeof r->last_error, "%s", why);
}

static int64_t role_done(const Role *r) {
    return (int64_t)(r->kind == ROLE_PUSH ? r->stored_all : r->lease ? r->acked_all : r->taken_all);
}

void role_count(Conn *c, uint64_t messages) {
    Role *r = c->role;
    if (load.measuring) {
        r->messages += messages;
        int64_t second = (load.now - load.window_began) / 1000000;
        if (second >= 0 && second < SERIES_MAX) r->series[second] += (uint32_t)messages;
    }
    if (r->count && role_done(r) >= r->count) r->finished = true;
}

static void schedule_run(Role *r) {
    while (r->idle && r->next_due <= load.now && !load.stopping && !r->finished) {
        Conn *c = r->idle;
        r->idle = c->idle_next;
        c->began = r->next_due;
        r->due_exact += 1e6 / r->rate;
        r->next_due = (int64_t)r->due_exact;
        push_request(c);
    }
}

void role_next(Conn *c) {
    Role *r = c->role;
    c->began = load.now;
    if (c->acking) { /* what was leased is acknowledged even when the run is over */
        Text t = c->out;
        c->out = c->ack;
        c->ack = t;
        conn_send(c);
    } else if (load.stopping || r->finished) {
        return;
    } else if (r->kind == ROLE_POP) {
        pop_request(c);
    } else if (r->rate > 0) {
        c->idle_next = r->idle;
        r->idle = c;
        schedule_run(r);
    } else {
        push_request(c);
    }
}

void role_answer(Conn *c, const char *body, size_t len) {
    Role *r = c->role;
    bool ack = c->acking;
    if (r->kind == ROLE_POP && !ack) c->flying--;
    load.now = clock_now();
    if (load.measuring) { r->requests++; hist_add(&r->latency, load.now - c->began); hist_add(&r->part_latency, load.now - c->began); }
    if (c->status < 200 || c->status > 299) {
        char why[160];
        snprintf(why, sizeof why, "status %d: %.*s", c->status, (int)(len < 120 ? len : 120), body);
        c->acking = false;
        role_error(c, why);
        if (r->kind == ROLE_POP && c->status == 404) pop_empty(c);
    } else if (r->kind == ROLE_PUSH) {
        push_answer(c, body, len);
    } else if (ack) {
        ack_answer(c, body, len);
    } else {
        pop_answer(c, body, len);
    }
    role_next(c);
}

static Role *role_parse(char *text) {
    Role *r = calloc(1, sizeof *r);
    char *save = NULL, *word = strtok_r(text, ",", &save);
    r->kind = !strcmp(word, "push") ? ROLE_PUSH : !strcmp(word, "pop") ? ROLE_POP : -1;
    if (r->kind < 0) { fprintf(stderr, "load: unknown role %s\n", word); exit(2); }
    snprintf(r->name, sizeof r->name, "%s", word);
    strcpy(r->queue, "bench");
    r->conns = 16; r->items = 100; r->partitions = 1000; r->ids = 7; r->batch = 50; r->claim = 1; r->timeout_ms = 30000; r->queues = r->depth = 1;
    while ((word = strtok_r(NULL, ",", &save))) {
        char *v = strchr(word, '=');
        if (!v) { fprintf(stderr, "load: %s has no value\n", word); exit(2); }
        *v++ = 0;
        struct { const char *key; int *to; } ints[] = {{"conns", &r->conns}, {"items", &r->items}, {"partitions", &r->partitions},
            {"ids", &r->ids}, {"queues", &r->queues}, {"depth", &r->depth}, {"batch", &r->batch}, {"claim", &r->claim}, {"timeout", &r->timeout_ms}, {NULL, NULL}};
        int i = 0;
        while (ints[i].key && strcmp(ints[i].key, word)) i++;
        if (ints[i].key) *ints[i].to = atoi(v);
        else if (!strcmp(word, "name")) snprintf(r->name, sizeof r->name, "%s", v);
        else if (!strcmp(word, "queue")) snprintf(r->queue, sizeof r->queue, "%s", v);
        else if (!strcmp(word, "group")) snprintf(r->group, sizeof r->group, "%s", v);
        else if (!strcmp(word, "into")) snprintf(r->into, sizeof r->into, "%s", v);
        else if (!strcmp(word, "mark")) r->mark = *v;
        else if (!strcmp(word, "form")) r->form = !strcmp(v, "plain") ? FORM_PLAIN : !strcmp(v, "framed") ? FORM_FRAMED : FORM_JSON;
        else if (!strcmp(word, "counts")) r->counts = atoi(v);
        else if (!strcmp(word, "frames")) r->frames = atoi(v);
        else if (!strcmp(word, "spread")) r->spread = !strcmp(v, "cycle") ? SPREAD_CYCLE : !strcmp(v, "block") ? SPREAD_BLOCK : SPREAD_RANDOM;
        else if (!strcmp(word, "rate")) r->rate = atof(v);
        else if (!strcmp(word, "count")) r->count = atoll(v);
        else if (!strcmp(word, "least")) r->least = atoll(v);
        else if (!strcmp(word, "lease")) r->lease = atoi(v);
        else if (!strcmp(word, "wait")) r->wait = atoi(v);
        else if (!strcmp(word, "autopilot")) r->autopilot = atoi(v);
        else if (!strcmp(word, "delivery")) r->measure_delivery = atoi(v);
        else { fprintf(stderr, "load: unknown setting %s\n", word); exit(2); }
    }
    if (r->items < 1 || r->conns < 1 || r->partitions < 1 || r->partitions > PARTITIONS_MAX || r->queues < 1 || r->queues > QUEUES_MAX || r->depth < 1 || (r->depth > 1 && r->lease) || (r->into[0] && (!r->lease || r->frames))) { fprintf(stderr, "load: impossible role\n"); exit(2); }
    r->kind == ROLE_PUSH ? push_prepare(r) : pop_prepare(r);
    return r;
}

/* What happened since the last part, which began `at` us into the window. */
static void part_report(int64_t at, int64_t until) {
    printf("part {\"at\":%.3f,\"seconds\":%.6f,\"roles\":{", (double)at / 1e6, (double)(until - at) / 1e6);
    for (Role *r = roles; r; r = r->next) {
        printf("\"%s\":{\"messages\":%lu,\"errors\":%lu", r->name, r->messages - r->part_messages, r->errors - r->part_errors);
        hist_print("", &r->part_latency);
        if (r->measure_delivery) hist_print("delivery_", &r->part_delivery);
        printf("}%s", r->next ? "," : "");
        r->part_messages = r->messages;
        r->part_errors = r->errors;
        memset(&r->part_latency, 0, sizeof(Hist));
        memset(&r->part_delivery, 0, sizeof(Hist));
    }
    puts("}}");
    fflush(stdout);
}

static void report(double seconds, double cpu) {
    printf("{\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"roles\":[", seconds, cpu);
    for (Role *r = roles; r; r = r->next) {
        printf("{\"name\":\"%s\",\"requests\":%lu,\"messages\":%lu,\"duplicates\":%lu,\"empty\":%lu,\"errors\":%lu,\"stored\":%lu,\"taken\":%lu,\"acked\":%lu",
               r->name, r->requests, r->messages, r->duplicates, r->empty, r->errors, r->stored_all, r->taken_all, r->acked_all);
        hist_print("", &r->latency);
        if (r->measure_delivery) hist_print("delivery_", &r->delivery);
        printf(",\"series\":[");
        for (int i = 0; i < (int)seconds && i < SERIES_MAX; i++) printf("%s%u", i ? "," : "", r->series[i]);
        printf("],\"error\":\"");
        text_told(r->last_error);
        printf("\"}%s", r->next ? "," : "");
    }
    printf("]}\n");
}

static bool unfinished(void) {
    for (int i = 0; i < n_conns; i++)
        if (conns[i].state == CONN_BUSY && (conns[i].acking || !conns[i].role->wait)) return true;
    return false;
}

static bool all_finished(void) {
    for (Role *r = roles; r; r = r->next) if (!r->finished) return false;
    return true;
}

/* A warm-up may not use up what is to be measured. */
static bool warm_enough(void) {
    for (Role *r = roles; r; r = r->next) if (r->count && role_done(r) >= r->count / 4) return true;
    return false;
}

static bool enough(void) {
    for (Role *r = roles; r; r = r->next) if ((int64_t)r->messages < r->least && !r->finished) return false;
    return true;
}

int main(int argc, char **argv) {
    if (argc < 6) { fprintf(stderr, "usage: load HOST PORT WARM_SECONDS SECONDS ROLE...\n"); return 2; }
    snprintf(load.host, sizeof load.host, "%s", argv[1]);
    load.port = atoi(argv[2]);
    int64_t warm = (int64_t)(atof(argv[3]) * 1e6), length = (int64_t)(atof(argv[4]) * 1e6);
    if (getrandom(random_fresh, sizeof random_fresh, 0) != sizeof random_fresh) { perror("load: getrandom"); return 1; }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    Role **tail = &roles;
    for (int i = 5; i < argc; i++) { *tail = role_parse(argv[i]); n_conns += (*tail)->conns; tail = &(*tail)->next; }
    conns = calloc((size_t)n_conns, sizeof *conns);
    int at = 0, opened = 0;
    load.conns = n_conns;
    for (Role *r = roles; r; r = r->next) for (int i = 0; i < r->conns; i++) { conns[at].number = i; conns[at++].role = r; }
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    link_prepare();
    load.now = clock_now();
    load.wall_offset = clock_of(CLOCK_REALTIME) - load.now;
    for (Role *r = roles; r; r = r->next) { r->due_exact = (double)(load.now + 200000); r->next_due = (int64_t)r->due_exact; }

    const char *every_text = getenv("LOAD_EVERY");
    int64_t every = every_text ? (int64_t)(atof(every_text) * 1e6) : 0, part = 0; /* part: where the present one began */
    int64_t warm_ends = 0, finish_by = 0;
    double cpu = 0, seconds = 0;
    for (;;) {
        while (opened < n_conns && load.connecting < CONNECTING_AT_ONCE) conn_open(&conns[opened++]);
        load.now = clock_now();
        if (!warm_ends && opened == n_conns && !load.connecting) warm_ends = load.now + warm;
        if (warm_ends && !load.measuring && !load.stopping && (load.now >= warm_ends || warm_enough())) {
            load.measuring = true;
            load.window_began = load.now;
            load.window_ends = load.now + length;
            cpu = cpu_seconds();
            puts("start"); fflush(stdout);
        }
        if (load.measuring && every > 0 && load.now - load.window_began >= part + every) {
            part_report(part, load.now - load.window_began);
            part = load.now - load.window_began;
        }
        if (load.measuring && load.now >= load.window_ends && !enough() &&
            load.now < load.window_began + length + LEAST_SECONDS * 1000000LL)
            load.window_ends = load.now + 10000;
        if (load.measuring && (load.now >= load.window_ends || all_finished())) {
            load.measuring = false;
            load.stopping = true;
            seconds = (double)(load.now - load.window_began) / 1e6;
            cpu = cpu_seconds() - cpu;
            finish_by = load.now + FINISH_SECONDS * 1000000LL;
            puts("stop"); fflush(stdout);
        }
        if (load.stopping && (!unfinished() || load.now > finish_by)) break;
        int64_t until = load.stopping ? finish_by : load.measuring ? load.window_ends : warm_ends ? warm_ends : load.now + 100000;
        for (Role *r = roles; r; r = r->next) if (r->rate > 0 && r->idle && !load.stopping && r->next_due < until) until = r->next_due;
        if (load.measuring && every > 0 && load.window_began + part + every < until) until = load.window_began + part + every;
        int64_t us = until > load.now ? until - load.now : 0;
        struct timespec pause = {us / 1000000, us % 1000000 * 1000};
        struct epoll_event events[64];
        int n = epoll_pwait2(load.epoll, events, 64, &pause, NULL);
        load.now = clock_now();
        for (int i = 0; i < n; i++) conn_event(events[i].data.ptr, events[i].events);
        for (Role *r = roles; r; r = r->next) if (r->rate > 0) { load.now = clock_now(); schedule_run(r); }
    }
    report(seconds, cpu);
    return 0;
}
