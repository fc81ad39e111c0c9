/*
 * disk DEVICE DEPTH SLICES MS MIX...: measures a disk. For each node of a MIX
 * it prints MIX, the node and the MB/s of each slice.
 *   read:NODE[:NODE...]   reads into buffers on the nodes, one stream each
 *   write:NODE[:NODE...]  writes from buffers on the nodes
 *   verify:NODE:NODE      writes from one node, reads into the other, and
 *                         prints whether the bytes are the same
 * A stream keeps DEPTH requests of 128 KiB in flight (O_DIRECT, io_submit).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 128 << 10, MAX_DEPTH = 64, MAX_STREAMS = 32, MAX_SLICES = 64 };
enum { MPOL_BIND = 2, SPAN = 64 << 20 };

/* Slices start and end at completions, so that they count complete blocks. */
struct progress {
    long bytes;
    double at;
};

struct stream {
    int node, number;
    const char *what;
    pthread_mutex_t lock;
    struct progress progress;
    pthread_t id;
};

static int disk, depth, slices, slice_ms;
static atomic_int stop;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static char *buffer_on(int node, size_t size)
{
    unsigned long mask = 1ul << node;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("mmap");
    if (syscall(SYS_mbind, p, size, MPOL_BIND, &mask, 64, 0))
        fail("mbind");
    for (size_t i = 0; i < size; i += 4096)
        p[i] = 1;
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void submit(aio_context_t context, struct iocb *request)
{
    if (syscall(SYS_io_submit, context, 1, &request) != 1)
        fail("io_submit");
}

/* Each stream cycles through its own part of the disk. */
static void *work(void *arg)
{
    struct stream *s = arg;
    struct iocb requests[MAX_DEPTH] = { 0 };
    struct io_event events[MAX_DEPTH];
    aio_context_t context = 0;
    char *buffer = buffer_on(s->node, (size_t)depth * BLOCK);
    int running = depth;
    if (syscall(SYS_io_setup, depth, &context))
        fail("io_setup");
    for (int i = 0; i < depth; i++) {
        requests[i].aio_lio_opcode =
            *s->what == 'r' ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
        requests[i].aio_fildes = disk;
        requests[i].aio_buf = (uintptr_t)buffer + (size_t)i * BLOCK;
        requests[i].aio_nbytes = BLOCK;
        requests[i].aio_offset = (long)s->number * SPAN + (long)i * BLOCK;
        submit(context, &requests[i]);
    }
    while (running) {
        int n = syscall(SYS_io_getevents, context, 1, depth, events, NULL);
        for (int i = 0; i < n; i++) {
            struct iocb *request = (struct iocb *)(uintptr_t)events[i].obj;
            if (events[i].res != BLOCK) {
                fprintf(stderr, "transfer failed: result %lld\n",
                        (long long)events[i].res);
                exit(1);
            }
            pthread_mutex_lock(&s->lock);
            s->progress.bytes += BLOCK;
            s->progress.at = now();
            pthread_mutex_unlock(&s->lock);
            request->aio_offset = (long)s->number * SPAN +
                (request->aio_offset + depth * BLOCK) % SPAN;
            if (stop)
                running--;
            else
                submit(context, request);
        }
    }
    syscall(SYS_io_destroy, context);
    munmap(buffer, (size_t)depth * BLOCK);
    return NULL;
}

static struct progress progress(struct stream *s)
{
    pthread_mutex_lock(&s->lock);
    struct progress p = s->progress;
    pthread_mutex_unlock(&s->lock);
    return p;
}

static void transfer(const char *what, const int *nodes, int count)
{
    static struct stream streams[MAX_STREAMS];
    static double rates[MAX_STREAMS][MAX_SLICES];
    stop = 0;
    for (int i = 0; i < count; i++) {
        streams[i] = (struct stream){ nodes[i], i, what, PTHREAD_MUTEX_INITIALIZER };
        if (pthread_create(&streams[i].id, NULL, work, &streams[i]))
            fail("pthread_create");
    }
    usleep(300000); /* warm up */
    for (int s = 0; s < slices; s++) {
        struct progress before[MAX_STREAMS];
        for (int i = 0; i < count; i++)
            before[i] = progress(&streams[i]);
        usleep(slice_ms * 1000);
        for (int i = 0; i < count; i++) {
            struct progress after = progress(&streams[i]);
            rates[i][s] = (after.bytes - before[i].bytes) /
                          (after.at - before[i].at) / 1e6;
        }
    }
    stop = 1;
    for (int i = 0; i < count; i++) {
        pthread_join(streams[i].id, NULL);
        printf("disk %s %d", what, nodes[i]);
        for (int s = 0; s < slices; s++)
            printf(" %.2f", rates[i][s]);
        putchar('\n');
    }
}

static void verify(int from, int to)
{
    size_t size = 8 * BLOCK;
    unsigned char *written = (void *)buffer_on(from, size);
    unsigned char *read_back = (void *)buffer_on(to, size);
    for (size_t i = 0; i < size; i++)
        written[i] = random();
    if (pwrite(disk, written, size, SPAN) != (ssize_t)size || fsync(disk) ||
        pread(disk, read_back, size, SPAN) != (ssize_t)size)
        fail("verify");
    printf("verify %d %d %s\n", from, to,
           memcmp(written, read_back, size) ? "differ" : "same");
    munmap(written, size);
    munmap(read_back, size);
}

static void measure(const char *what)
{
    int nodes[MAX_STREAMS], count = 0;
    const char *at = what;
    while ((at = strchr(at, ':')) && count < MAX_STREAMS)
        nodes[count++] = atoi(++at);
    if (!strncmp(what, "verify:", 7) && count == 2)
        verify(nodes[0], nodes[1]);
    else if (count)
        transfer(what, nodes, count);
    else
        exit(2);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    disk = open(argv[1], O_RDWR | O_DIRECT);
    if (disk < 0)
        fail(argv[1]);
    depth = atoi(argv[2]);
    slices = atoi(argv[3]);
    slice_ms = atoi(argv[4]);
    if (depth < 1 || depth > MAX_DEPTH || slices > MAX_SLICES)
        return 2;
    for (int i = 5; i < argc; i++)
        measure(argv[i]);
    return 0;
}
