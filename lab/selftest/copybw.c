/*
 * copybw THREADS SLICES MS HOW CPUNODE...: for each CPU node, copies from
 * every node's memory to its own and from its own to every node's with
 * THREADS threads pinned to its CPUs; prints "copy CPUNODE SOURCE SINK" and
 * the MB/s of each slice.  HOW: memcpy, avx2 or nt (non-temporal stores).
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4 << 20, STEP = 16 << 10, MAX = 64, MPOL_BIND = 2 };

typedef void copy_function(char *to, const char *from);

static void with_memcpy(char *to, const char *from)
{
    memcpy(to, from, STEP);
}

__attribute__((target("avx2")))
static void with_avx2(char *to, const char *from)
{
    for (int i = 0; i < STEP; i += 32)
        _mm256_store_si256((__m256i *)(to + i),
                           _mm256_load_si256((const __m256i *)(from + i)));
}

__attribute__((target("avx2")))
static void with_nt(char *to, const char *from)
{
    for (int i = 0; i < STEP; i += 32)
        _mm256_stream_si256((__m256i *)(to + i),
                            _mm256_load_si256((const __m256i *)(from + i)));
    _mm_sfence();
}

static copy_function *copy;
static int nodes, threads, slices, slice_ms;
static pthread_barrier_t barrier;
static atomic_int stop;
static atomic_long copied;

struct job {
    char *from, *to;
    int cpu;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int cpu_of_node(int node, int index)
{
    for (int cpu = 0; cpu < 1024; cpu++) {
        char name[100];
        snprintf(name, sizeof name,
                 "/sys/devices/system/node/node%d/cpu%d", node, cpu);
        if (!access(name, F_OK) && index-- == 0)
            return cpu;
    }
    return -1;
}

static char *buffer_on(int node)
{
    unsigned long mask = 1ul << node;
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("mmap");
    if (syscall(SYS_mbind, p, SIZE, MPOL_BIND, &mask, 64, 0))
        fail("mbind");
    for (int i = 0; i < SIZE; i += 4096)
        p[i] = 1;
    return p;
}

static void *work(void *arg)
{
    struct job *job = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(job->cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
    pthread_barrier_wait(&barrier);
    for (int at = 0; !stop; at = (at + STEP) % SIZE) {
        copy(job->to + at, job->from + at);
        copied += STEP;
    }
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void measure(int node, int source, int sink)
{
    pthread_t ids[MAX];
    struct job jobs[MAX];
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){ buffer_on(source), buffer_on(sink),
                                cpu_of_node(node, i) };
        if (jobs[i].cpu < 0) {
            fprintf(stderr, "node %d has too few CPUs\n", node);
            exit(1);
        }
    }
    stop = 0;
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &jobs[i]))
            fail("pthread_create");
    pthread_barrier_wait(&barrier);
    usleep(100000); /* warm up */
    printf("copy %d %d %d", node, source, sink);
    for (int s = 0; s < slices; s++) {
        long before = copied;
        double t = now();
        usleep(slice_ms * 1000);
        long after = copied;
        printf(" %.2f", (after - before) / (now() - t) / 1e6);
    }
    printf("\n");
    fflush(stdout);
    stop = 1;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        munmap(jobs[i].from, SIZE);
        munmap(jobs[i].to, SIZE);
    }
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    threads = atoi(argv[1]);
    slices = atoi(argv[2]);
    slice_ms = atoi(argv[3]);
    copy = !strcmp(argv[4], "avx2") ? with_avx2
         : !strcmp(argv[4], "nt") ? with_nt : with_memcpy;
    char name[64];
    do
        snprintf(name, sizeof name, "/sys/devices/system/node/node%d", nodes);
    while (!access(name, F_OK) && ++nodes);
    for (int i = 5; i < argc; i++) {
        int node = atoi(argv[i]);
        for (int other = 0; other < nodes; other++) {
            measure(node, other, node);
            if (other != node)
                measure(node, node, other);
        }
    }
}
