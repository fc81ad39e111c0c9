/* A pointer chase as multichase makes it, reimplemented: one random cycle through a buffer, a warm-up of one
 * pass, and then loads that wait for each other, with the clock read at the beginning and the end alone.
 * usage: chase CPU BYTES STRIDE SECONDS base|transparent; prints nanoseconds per load. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

#define FIVE(x) x x x x x
#define LOADS 125

static void **follow(void **place, uint64_t bursts)
{
    while (bursts--) {
        FIVE(FIVE(FIVE(place = *(void **volatile *)place;)))
    }
    return place;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atoi(argv[1]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) {
        perror("sched_setaffinity");
        return 1;
    }
    const size_t bytes = strtoull(argv[2], NULL, 10), stride = strtoull(argv[3], NULL, 10), huge = 2 << 20;
    const size_t places = bytes / stride;
    char *map = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t *order = malloc(places * sizeof *order);
    if (map == MAP_FAILED || !order) {
        perror("memory");
        return 1;
    }
    map = (char *)(((uintptr_t)map + huge - 1) / huge * huge);
    madvise(map, bytes, strcmp(argv[5], "transparent") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(map, 1, bytes);
    for (size_t i = 0; i < places; i++)
        order[i] = i;
    srand48(7);
    for (size_t i = places - 1; i > 0; i--) {
        size_t other = (size_t)(drand48() * (double)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < places; i++)
        *(void **)(map + order[i] * stride) = map + order[(i + 1) % places] * stride;
    void **place = follow((void **)map, places / LOADS + 1);
    /* Bursts that take SECONDS, by the time of some. */
    const uint64_t some = 1 + 200000 / LOADS;
    double began = now();
    place = follow(place, some);
    uint64_t bursts = 1 + (uint64_t)(atof(argv[4]) / (now() - began) * some);
    began = now();
    place = follow(place, bursts);
    double passed = now() - began;
    printf("%.4f\n", passed * 1e9 / ((double)bursts * LOADS));
    return place == NULL;
}
