/*
 * measure THREADS SLICES MS LOOP MEASUREMENT...: prints each MEASUREMENT with
 * spaces for colons, and the result of each slice of MS milliseconds.
 *   copy:CPUNODE:SOURCE:SINK  MB/s copied by THREADS threads pinned to CPUNODE
 *   triad:CPUNODE:MEMNODE     MB/s loaded and stored: a = b + q * c, as STREAM
 *   chase:CPUNODE:MEMNODE     ns per load of one thread in a chain of dependent
 *                             loads, lines in random order
 *   loaded:CPUNODE:MEMNODE:MB_PER_S  a chase while another thread of CPUNODE
 *                             loads from MEMNODE at this rate
 * LOOP is the copy loop: memcpy, avx2 or nt (non-temporal stores).
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4 << 20, STEP = 16 << 10, LINE = 64, LINES = SIZE / LINE };
enum { MAX = 64, MPOL_BIND = 2 };

/* Writes STEP bytes from one or two source arrays. */
typedef void loop(char *to, const char *from, const char *other);

static void with_memcpy(char *to, const char *from, const char *other)
{
    memcpy(to, from, STEP);
}

__attribute__((target("avx2")))
static void with_avx2(char *to, const char *from, const char *other)
{
    for (int i = 0; i < STEP; i += 32)
        _mm256_store_si256((__m256i *)(to + i),
                           _mm256_load_si256((const __m256i *)(from + i)));
}

__attribute__((target("avx2")))
static void with_nt(char *to, const char *from, const char *other)
{
    for (int i = 0; i < STEP; i += 32)
        _mm256_stream_si256((__m256i *)(to + i),
                            _mm256_load_si256((const __m256i *)(from + i)));
    _mm_sfence();
}

__attribute__((target("avx2")))
static void triad(char *to, const char *from, const char *other)
{
    __m256d q = _mm256_set1_pd(3);
    for (int i = 0; i < STEP; i += 32) {
        __m256d product = _mm256_mul_pd(q, _mm256_load_pd((double *)(other + i)));
        __m256d term = _mm256_load_pd((double *)(from + i));
        _mm256_store_pd((double *)(to + i), _mm256_add_pd(term, product));
    }
}

/* Callers must use the result, otherwise the compiler removes the loads. */
__attribute__((target("avx2")))
static int sum(const char *from)
{
    __m256i all = _mm256_setzero_si256();
    for (int i = 0; i < STEP; i += 32)
        all = _mm256_add_epi64(all, _mm256_load_si256((const __m256i *)(from + i)));
    return _mm256_extract_epi32(all, 0);
}

static int threads, slices, slice_ms;
static pthread_barrier_t barrier;
static atomic_int stop;
static atomic_long written;

struct job {
    loop *loop;
    char *to, *from, *other;
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
    fprintf(stderr, "node %d has too few CPUs\n", node);
    exit(1);
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

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
}

static void *work(void *arg)
{
    struct job *job = arg;
    pin(job->cpu);
    pthread_barrier_wait(&barrier);
    for (int at = 0; !stop; at = (at + STEP) % SIZE) {
        job->loop(job->to + at, job->from + at, job->other + at);
        written += STEP;
    }
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Prints the MB/s of all threads; each written byte counts `factor` times. */
static void bandwidth(loop *loop, int factor, int node, int source, int sink)
{
    pthread_t ids[MAX];
    struct job jobs[MAX];
    for (int i = 0; i < threads; i++)
        jobs[i] = (struct job){ loop, buffer_on(sink), buffer_on(source),
                                buffer_on(source), cpu_of_node(node, i) };
    stop = 0;
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &jobs[i]))
            fail("pthread_create");
    pthread_barrier_wait(&barrier);
    usleep(100000); /* warm up */
    for (int s = 0; s < slices; s++) {
        long before = written;
        double t = now();
        usleep(slice_ms * 1000);
        long after = written;
        printf(" %.2f", factor * (after - before) / (now() - t) / 1e6);
    }
    stop = 1;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        munmap(jobs[i].to, SIZE);
        munmap(jobs[i].from, SIZE);
        munmap(jobs[i].other, SIZE);
    }
}

/* Links all lines of the buffer into one cycle in random order (Sattolo). */
static void **chain(char *buffer)
{
    static uint32_t order[LINES];
    for (int i = 0; i < LINES; i++)
        order[i] = i;
    for (int i = LINES - 1; i > 0; i--) {
        int j = random() % i;
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < LINES; i++)
        *(void **)(buffer + (size_t)order[i] * LINE) =
            buffer + (size_t)order[(i + 1) % LINES] * LINE;
    return (void **)buffer;
}

struct load {
    int cpu, memory, mb_per_s;
};

static void *load(void *arg)
{
    const struct load *load = arg;
    volatile int used;
    pin(load->cpu);
    char *buffer = buffer_on(load->memory);
    double start = now(), bytes = 0;
    for (int at = 0; !stop; at = (at + STEP) % SIZE) {
        used = sum(buffer + at);
        bytes += STEP;
        double ahead = start + bytes / load->mb_per_s / 1e6 - now();
        if (ahead > 0)
            usleep(ahead * 1e6);
    }
    (void)used;
    munmap(buffer, SIZE);
    return NULL;
}

static void latency(int node, int memory)
{
    pin(cpu_of_node(node, 0));
    char *buffer = buffer_on(memory);
    void **at = chain(buffer);
    for (int s = -1; s < slices; s++) { /* the first slice warms up */
        double t = now(), end = t + slice_ms / 1e3;
        long loads = 0;
        for (; now() < end; loads += 1000)
            for (int i = 0; i < 1000; i++)
                at = *(void **volatile *)at;
        if (s >= 0)
            printf(" %.1f", (now() - t) / loads * 1e9);
    }
    munmap(buffer, SIZE);
}

static void loaded_latency(int node, int memory, int mb_per_s)
{
    pthread_t id;
    struct load job = { cpu_of_node(node, 1), memory, mb_per_s };
    stop = 0;
    if (pthread_create(&id, NULL, load, &job))
        fail("pthread_create");
    latency(node, memory);
    stop = 1;
    pthread_join(id, NULL);
}

static void measure(const char *what, loop *copy)
{
    int node, from, to;
    for (const char *c = what; *c; c++)
        putchar(*c == ':' ? ' ' : *c);
    if (sscanf(what, "copy:%d:%d:%d", &node, &from, &to) == 3)
        bandwidth(copy, 1, node, from, to);
    else if (sscanf(what, "triad:%d:%d", &node, &from) == 2)
        bandwidth(triad, 3, node, from, from);
    else if (sscanf(what, "chase:%d:%d", &node, &from) == 2)
        latency(node, from);
    else if (sscanf(what, "loaded:%d:%d:%d", &node, &from, &to) == 3)
        loaded_latency(node, from, to);
    else
        exit(2);
    putchar('\n');
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    threads = atoi(argv[1]);
    slices = atoi(argv[2]);
    slice_ms = atoi(argv[3]);
    loop *copy = !strcmp(argv[4], "avx2") ? with_avx2
               : !strcmp(argv[4], "nt") ? with_nt : with_memcpy;
    for (int i = 5; i < argc; i++)
        measure(argv[i], copy);
}
