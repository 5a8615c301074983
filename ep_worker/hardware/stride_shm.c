/* Atomic adds of 8 bytes to counters that lie a stride apart in shared memory. Compiled at run time.
 *
 * Issuers (threads) take the channels in turn, each its own: a counter has one writer, as a channel's tail signal has, so that
 * what a stride costs is sharing of lines and reach of memory, never two adds that meet in one counter.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

struct issuer {
    char *base;
    long first, num_channels, step, num_adds;
    size_t stride;
    atomic_int *ready;
    int num_issuers;
    int64_t began_ns, ended_ns;
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *issue(void *argument) {
    struct issuer *me = argument;
    atomic_fetch_add(me->ready, 1);
    while (atomic_load(me->ready) < me->num_issuers) {
    }
    me->began_ns = now_ns();
    for (long add = 0; add < me->num_adds; add++)
        for (long channel = me->first; channel < me->num_channels; channel += me->step)
            atomic_fetch_add((_Atomic uint64_t *)(me->base + channel * me->stride), 1);
    me->ended_ns = now_ns();
    return 0;
}

/* Nanoseconds from the first issuer's first add to the last one's last; the counters' sum in *sum. Negative: no memory or thread. */
int64_t stride_shm(int num_issuers, long num_channels, size_t stride, long num_adds, uint64_t *sum) {
    enum { MAX = 256 };
    pthread_t threads[MAX];
    struct issuer issuers[MAX];
    atomic_int ready = 0;
    size_t size = (num_channels - 1) * stride + sizeof(uint64_t);
    if (num_issuers < 1 || num_issuers > MAX) return -1;
    char *base = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (base == MAP_FAILED) return -2;
    int started = 0;
    for (; started < num_issuers; started++) {
        struct issuer made = {base, started, num_channels, num_issuers, num_adds, stride, &ready, num_issuers, 0, 0};
        issuers[started] = made;
        if (pthread_create(&threads[started], 0, issue, &issuers[started])) break;
    }
    if (started < num_issuers) {
        atomic_fetch_add(&ready, num_issuers); /* lets those that wait go on */
        for (int i = 0; i < started; i++) pthread_join(threads[i], 0);
        munmap(base, size);
        return -3;
    }
    int64_t began = INT64_MAX, ended = 0;
    for (int i = 0; i < num_issuers; i++) {
        pthread_join(threads[i], 0);
        if (issuers[i].began_ns < began) began = issuers[i].began_ns;
        if (issuers[i].ended_ns > ended) ended = issuers[i].ended_ns;
    }
    *sum = 0;
    for (long channel = 0; channel < num_channels; channel++) *sum += *(uint64_t *)(base + channel * stride);
    munmap(base, size);
    return ended - began;
}
