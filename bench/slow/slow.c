/* Preloaded into PostgreSQL: makes it slower the way distant or slow hardware does, without work for the processor.
 *   SLOW_COMMIT_US  added to every fsync and fdatasync of a file in pg_wal: a slow disk
 *   SLOW_TRIP_US    added between the last byte of a request and the first of its answer: a long way to the server
 * The way is added in the backend, after its commit, when it holds no lock: a client that waits for each answer sees a
 * longer round trip and nothing else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long commit_us = -1, trip_us;
static int asked; /* something was read since the last answer; a backend has one client and one thread */

static void settings(void) {
    const char *commit = getenv("SLOW_COMMIT_US"), *trip = getenv("SLOW_TRIP_US");
    trip_us = trip ? atol(trip) : 0;
    commit_us = commit ? atol(commit) : 0;
}

static void pause_us(long us) {
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left)) {}
}

static void pause_wal(int fd) {
    char link[64], path[4096];
    if (commit_us < 0) settings();
    if (!commit_us) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return;
    path[n] = 0;
    if (strstr(path, "/pg_wal/")) pause_us(commit_us);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    pause_wal(fd);
    return real(fd);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    pause_wal(fd);
    return real(fd);
}

ssize_t recv(int fd, void *to, size_t n, int flags) {
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real) real = (ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    ssize_t got = real(fd, to, n, flags);
    if (got > 0) asked = 1;
    return got;
}

ssize_t send(int fd, const void *from, size_t n, int flags) {
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    if (commit_us < 0) settings();
    if (asked) pause_us(trip_us);
    asked = 0;
    return real(fd, from, n, flags);
}
