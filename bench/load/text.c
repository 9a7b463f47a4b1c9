/* Ids, numbers, growing text, histogram, clock and processor time: everything without a socket. */
#define _GNU_SOURCE
#include "load.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void hist_add(Hist *h, int64_t us) {
    if (us < 0) us = 0;
    int slot = (int)us;
    if (us >= HIST_STEPS) {
        int power = 63 - __builtin_clzll((uint64_t)us);          /* 5 and up */
        slot = (power - 4) * HIST_STEPS + (int)((us >> (power - 5)) & (HIST_STEPS - 1));
        if (slot >= HIST_SIZE) slot = HIST_SIZE - 1;
    }
    h->count[slot]++;
    h->total++;
    h->sum += (double)us;
    if (us > h->max) h->max = us;
}

double hist_at(const Hist *h, double share) {
    if (!h->total) return NAN;
    uint64_t want = (uint64_t)ceil(share * (double)h->total), seen = 0;
    for (int i = 0; i < HIST_SIZE; i++) {
        seen += h->count[i];
        if (seen < want || !seen) continue;
        if (i < HIST_STEPS) return i / 1000.0;
        int power = i / HIST_STEPS + 4;
        double low = ldexp(1.0, power), step = low / HIST_STEPS;
        return (low + (i % HIST_STEPS + 0.5) * step) / 1000.0;
    }
    return h->max / 1000.0;
}

static void number(const char *key, double v) {
    if (isnan(v)) printf(",\"%s\":null", key);
    else printf(",\"%s\":%.3f", key, v);
}

void hist_print(const char *what, const Hist *h) {
    static const struct { const char *name; double share; } shares[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
    char key[40];
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s%s_ms", what, shares[i].name);
        number(key, hist_at(h, shares[i].share));
    }
    snprintf(key, sizeof key, "%smax_ms", what);
    number(key, h->total ? (double)h->max / 1000 : NAN);
}

void text_room(Text *t, size_t more) {
    if (t->len + more <= t->cap) return;
    size_t cap = t->cap ? t->cap : 512;
    while (cap < t->len + more) cap *= 2;
    t->p = realloc(t->p, cap);
    if (!t->p) { fputs("load: out of memory\n", stderr); exit(1); }
    t->cap = cap;
}

void text_add(Text *t, const void *p, size_t n) {
    text_room(t, n);
    memcpy(t->p + t->len, p, n);
    t->len += n;
}

void text_print(Text *t, const char *format, ...) {
    va_list a, b;
    va_start(a, format);
    va_copy(b, a);
    int n = vsnprintf(NULL, 0, format, a);
    text_room(t, (size_t)n + 1);
    vsnprintf(t->p + t->len, (size_t)n + 1, format, b);
    t->len += (size_t)n;
    va_end(a);
    va_end(b);
}

uint64_t random_seeded[2] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u}, random_fresh[2];

uint64_t random_next(uint64_t s[2]) { /* xorshift128+ */
    uint64_t a = s[0], b = s[1];
    s[0] = b;
    a ^= a << 23;
    s[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
    return s[1] + b;
}

void digits_write(char *at, int n, uint64_t value) {
    while (n--) { at[n] = (char)('0' + value % 10); value /= 10; }
}

static void hex_write(char *at, uint64_t value, int digits) {
    static const char hex[] = "0123456789abcdef";
    while (digits--) { at[digits] = hex[value & 15]; value >>= 4; }
}

void id_write(char *at, int version, int64_t wall_us) {
    static uint64_t last; /* 48 bits of milliseconds, 12 bits of counter: ids of one generator strictly rise */
    uint64_t head, tail = random_next(random_fresh);
    if (version == 7) {
        head = (uint64_t)(wall_us / 1000) << 12;
        if (head <= last) head = last + 1;
        last = head;
    } else {
        head = random_next(random_fresh) >> 4;
    }
    hex_write(at, head >> 28, 8);
    at[8] = '-';
    hex_write(at + 9, head >> 12 & 0xffff, 4);
    at[13] = '-';
    at[14] = (char)('0' + version);
    hex_write(at + 15, head & 0xfff, 3);
    at[18] = '-';
    at[19] = "89ab"[tail >> 62];
    hex_write(at + 20, tail >> 48 & 0xfff, 3);
    at[23] = '-';
    hex_write(at + 24, tail & 0xffffffffffff, 12);
}

size_t find_count(const char *p, size_t n, const char *word) {
    size_t found = 0, len = strlen(word);
    const char *end = p + n;
    while ((p = memmem(p, (size_t)(end - p), word, len))) { found++; p += len; }
    return found;
}

/* What JSON has between quotes. */
void text_told(const char *text) {
    for (const char *p = text; *p; p++) if (*p == '"' || *p == '\\') printf("\\%c", *p); else if (*p >= ' ') putchar(*p);
}

int64_t clock_of(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
