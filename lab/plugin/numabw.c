/*
 * numabw: a QEMU TCG plugin that limits bandwidth and latency for each
 * (CPU node, memory node) of an emulated machine.
 *
 * Bandwidth: the plugin counts every access of user code.  After CHUNK bytes
 * for one (CPU node, memory node, load or store), a vCPU books them on the
 * bucket that all vCPUs share for this triple, and sleeps until the bucket has
 * served them.  Loops that load from and store to one node use a separate
 * bucket if its rate is configured: see is_stream().
 *
 * Latency: a load from a line that is not prefetched delays its vCPU, and is
 * not booked: see is_prefetched().
 *
 * Kernel code runs without limits.
 *
 *   -plugin libnumabw.so,conf=FILE     lines of FILE:
 *     cpu INDEX NODE                   vCPU INDEX belongs to NODE
 *     mem NODE SIZE                    nodes' memory in order, SIZE in bytes
 *     rate CPUNODE MEMNODE load|store|stream BYTES_PER_SECOND
 *     latency CPUNODE MEMNODE NANOSECONDS
 *     queue SHARE MAX                  see update_factor()
 *     slack NANOSECONDS                see charge()
 *
 * With a second argument, counts=FILE, the bytes of each (CPU node, memory
 * node) are in FILE when QEMU ends: a line CPUNODE MEMNODE LOADED STORED for
 * each pair with bytes, of all user code, limited or not.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <x86intrin.h>

/*
 * The used part of QEMU's plugin API, which is the same in versions 1 and 2.
 * lab/run defines the version that QEMU expects.  Distributions ship QEMU
 * without <qemu-plugin.h>, so the API is declared here.
 */
#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum { CB_NO_REGS = 0 };
enum { MEM_RW = 3 };
typedef void (*tb_trans_cb)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*mem_cb)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *);
typedef void (*exit_cb)(qemu_plugin_id_t, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, exit_cb, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_trans_cb);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, mem_cb,
                                      int flags, int rw, void *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *,
                                                 size_t);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t,
                                                  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

EXPORT int qemu_plugin_version = API_VERSION;

enum {
    MAX_NODES = 32,
    MAX_CPUS = 256,
    CHUNK = 16 << 10,
    PAGE_SHIFT = 12,
    PAGES = 64, /* cached page translations per vCPU */
    LINE_SHIFT = 6,
    STREAMS = 16,      /* followed by a vCPU's prefetcher */
    WAIT_NS = 100000,  /* a vCPU sleeps when its latency reaches this */
    UPDATE_NS = 20000000,
};
enum { LOAD, STORE, STREAM, KINDS };

struct bucket {
    int64_t next; /* time at which all booked bytes are served, ns */
    int64_t late; /* delay by the host's scheduler, ns */
    int64_t booked; /* total, ns */
    double ns_per_byte; /* 0: no limit */
} __attribute__((aligned(64)));

struct page {
    uint64_t number;
    uint32_t *bytes; /* counters of its memory node, [LOAD] and [STORE] */
    int32_t left;    /* bytes until the translation is looked up again */
};

struct path { /* from a vCPU to a memory node */
    int64_t since, booked;
    double factor; /* of the idle latency */
};

struct vcpu {
    int node;
    struct page pages[PAGES];
    uint32_t bytes[MAX_NODES + 1][2]; /* not yet booked; last: no node */
    uint32_t old[MAX_NODES + 1][2];   /* not booked at the last booking */
    uint64_t lines[STREAMS];          /* last line of each stream, newest first */
    int64_t wait_ns;                  /* pending latency */
    struct bucket latency;
    struct path paths[MAX_NODES];
} __attribute__((aligned(64)));

static struct bucket buckets[MAX_NODES][MAX_NODES][KINDS];
static int64_t latency_ns[MAX_NODES][MAX_NODES + 1]; /* last: no node */
static double queue_share, queue_max = 1;
static struct vcpu vcpus[MAX_CPUS];
static struct { uint64_t start, size; } memory[MAX_NODES];
static int nodes;
static int64_t slack_ns = 20 * 1000 * 1000;
static const int64_t work_ns = 1000 * 1000;
static bool kernel_runs;
static uint64_t totals[MAX_NODES][MAX_NODES + 1][2]; /* bytes, of all vCPUs */
static const char *counts_file;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/*
 * A bucket is behind its schedule for one of two reasons.  If the host woke a
 * thread late, the bucket keeps its schedule, so that the thread catches up
 * and the rate stays exact.  If the demand was below the rate, the bucket gives
 * no credit for a burst, except for the time in which a thread collects its
 * next bytes.
 */
static void charge(struct bucket *b, int64_t cost)
{
    static __thread bool ready;
    if (!ready) { /* first call on this vCPU's own thread */
        prctl(PR_SET_TIMERSLACK, 1);
        ready = true;
    }
    __atomic_fetch_add(&b->booked, cost, __ATOMIC_RELAXED);
    int64_t now = now_ns(), end;
    int64_t late = __atomic_load_n(&b->late, __ATOMIC_RELAXED);
    int64_t earliest = now - work_ns - late;
    int64_t old = __atomic_load_n(&b->next, __ATOMIC_RELAXED);
    do {
        end = (old < earliest ? earliest : old) + cost;
    } while (!__atomic_compare_exchange_n(&b->next, &old, end, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (end <= now) { /* still catching up */
        if (late > now - end)
            __atomic_store_n(&b->late, now - end, __ATOMIC_RELAXED);
        return;
    }
    struct timespec t = { end / 1000000000, end % 1000000000 };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    late = now_ns() - end;
    __atomic_store_n(&b->late, late < slack_ns ? late : slack_ns, __ATOMIC_RELAXED);
}

static int node_of(uint64_t phys)
{
    for (int n = 0; n < nodes; n++)
        if (phys - memory[n].start < memory[n].size)
            return n;
    return MAX_NODES;
}

/*
 * Page tables change without notice, so a translation is valid for as many
 * bytes as a page has.
 */
static void translate(struct vcpu *v, struct page *p, qemu_plugin_meminfo_t info,
                      uint64_t vaddr)
{
    struct qemu_plugin_hwaddr *hw = qemu_plugin_get_hwaddr(info, vaddr);
    int n = MAX_NODES;
    if (hw && !qemu_plugin_hwaddr_is_io(hw))
        n = node_of(qemu_plugin_hwaddr_phys_addr(hw));
    p->number = vaddr >> PAGE_SHIFT;
    p->bytes = v->bytes[n];
    p->left = 1 << PAGE_SHIFT;
}

static int node_of_page(const struct vcpu *v, const struct page *p)
{
    return (uint32_t (*)[2])p->bytes - v->bytes;
}

/*
 * Returns whether a vCPU accesses memory as STREAM does: since its last booking
 * at least 90 % of its bytes were on node n, with at least 20 % each of loads
 * and stores.  (A copy has 50 % of each, a sum of two arrays 33 % of stores.)
 */
static bool is_stream(const struct vcpu *v, int n)
{
    uint32_t all = 0;
    uint32_t loads = v->bytes[n][LOAD] - v->old[n][LOAD];
    uint32_t stores = v->bytes[n][STORE] - v->old[n][STORE];
    for (int i = 0; i < nodes; i++)
        for (int kind = LOAD; kind <= STORE; kind++)
            all += v->bytes[i][kind] - v->old[i][kind];
    return all >= CHUNK && 10 * (loads + stores) >= 9 * all &&
           5 * loads >= all && 5 * stores >= all;
}

static void count(const struct vcpu *v, int n, int kind, uint32_t bytes)
{
    __atomic_fetch_add(&totals[v->node][n][kind], bytes, __ATOMIC_RELAXED);
}

static void book(struct vcpu *v, int n, int kind)
{
    struct bucket *b = n < nodes ? buckets[v->node][n] : NULL;
    uint32_t bytes = v->bytes[n][kind];
    if (b && b[STREAM].ns_per_byte > 0 && is_stream(v, n)) {
        bytes = v->bytes[n][LOAD] + v->bytes[n][STORE];
        count(v, n, LOAD, v->bytes[n][LOAD]);
        count(v, n, STORE, v->bytes[n][STORE]);
        v->bytes[n][LOAD] = v->bytes[n][STORE] = 0;
        kind = STREAM;
    } else {
        count(v, n, kind, bytes);
        v->bytes[n][kind] = 0;
    }
    memcpy(v->old, v->bytes, nodes * sizeof v->old[0]);
    if (b && b[kind].ns_per_byte > 0)
        charge(&b[kind], bytes * b[kind].ns_per_byte);
}

/*
 * Returns whether the prefetcher has loaded a line.  It follows STREAMS streams,
 * and loads the lines next to the last one of each.  Any other line starts a
 * stream that replaces the oldest.
 */
static bool is_prefetched(uint64_t *lines, uint64_t line)
{
    uint64_t last = line;
    for (int i = 0; i < STREAMS; i++) {
        uint64_t old = lines[i];
        lines[i] = last;
        if (line - old + 1 <= 2) /* -1, 0 or 1 */
            return true;
        last = old;
    }
    return false;
}

/*
 * Updates the latency factor of a path for queueing: if its load and stream
 * buckets are used to the share u of their rate, latency is
 * 1 + SHARE * u / (1 - u) times the idle latency, at most MAX times.
 */
static void update_factor(struct path *path, const struct bucket *b)
{
    int64_t now = now_ns(), time = now - path->since;
    if (time < UPDATE_NS)
        return;
    int64_t booked = b[LOAD].booked + b[STREAM].booked;
    double used = (double)(booked - path->booked) / time;
    double factor = used < 1 ? 1 + queue_share * used / (1 - used) : queue_max;
    *path = (struct path){ now, booked, factor < queue_max ? factor : queue_max };
}

/* Each vCPU waits independently: loads of others do not delay it. */
static bool wait_for_line(struct vcpu *v, int n)
{
    if (latency_ns[v->node][n] == 0)
        return false;
    v->wait_ns += latency_ns[v->node][n] * v->paths[n].factor;
    if (v->wait_ns >= WAIT_NS) {
        charge(&v->latency, v->wait_ns);
        v->wait_ns = 0;
        update_factor(&v->paths[n], buckets[v->node][n]);
    }
    return true;
}

/* QEMU splits AVX accesses into accesses of at most 16 bytes. */
static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                      void *unused)
{
    struct vcpu *v = &vcpus[cpu];
    struct page *p = &v->pages[(vaddr >> PAGE_SHIFT) % PAGES];
    uint32_t size = 1u << qemu_plugin_mem_size_shift(info);
    int kind = qemu_plugin_mem_is_store(info) ? STORE : LOAD;
    if (p->number != vaddr >> PAGE_SHIFT || p->left <= 0)
        translate(v, p, info, vaddr);
    p->left -= size;
    if (kind == LOAD && !is_prefetched(v->lines, vaddr >> LINE_SHIFT) &&
        wait_for_line(v, node_of_page(v, p))) {
        count(v, node_of_page(v, p), kind, size);
        return;
    }
    if ((p->bytes[kind] += size) >= CHUNK)
        book(v, node_of_page(v, p), kind);
}

/*
 * User code is in the lower half of the address space.  So are firmware and
 * early boot code, which end before the first kernel code is translated.
 */
static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    if (qemu_plugin_tb_vaddr(tb) >> 63) {
        kernel_runs = true;
        return;
    }
    if (!kernel_runs)
        return;
    size_t n = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < n; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i),
                                         on_access, CB_NO_REGS, MEM_RW, NULL);
}

/*
 * QEMU 7.2 to 8.2 address RAM by block offset + offset in the block + position
 * of the block in the machine's memory.  The nodes' memory backends are the
 * first blocks and are contiguous in both spaces, hence the factor 2.
 */
static void add_memory(int node, uint64_t size)
{
    static uint64_t base;
    memory[node].start = 2 * base;
    memory[node].size = size;
    base += size;
    nodes = node + 1;
}

static int kind_named(const char *name)
{
    return !strcmp(name, "load") ? LOAD : !strcmp(name, "store") ? STORE : STREAM;
}

static int read_conf(const char *name)
{
    FILE *f = fopen(name, "r");
    char line[200], kind[8];
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f)) {
        unsigned a, b;
        uint64_t n;
        double rate;
        if (sscanf(line, "cpu %u %u", &a, &b) == 2 && a < MAX_CPUS)
            vcpus[a].node = b;
        else if (sscanf(line, "mem %u %" SCNu64, &a, &n) == 2 && a < MAX_NODES)
            add_memory(a, n);
        else if (sscanf(line, "rate %u %u %7s %lf", &a, &b, kind, &rate) == 4 &&
                 a < MAX_NODES && b < MAX_NODES && rate > 0)
            buckets[a][b][kind_named(kind)].ns_per_byte = 1e9 / rate;
        else if (sscanf(line, "latency %u %u %" SCNu64, &a, &b, &n) == 3 &&
                 a < MAX_NODES && b < MAX_NODES)
            latency_ns[a][b] = n;
        else if (sscanf(line, "queue %lf %lf", &queue_share, &queue_max) == 2)
            continue;
        else if (sscanf(line, "slack %" SCNu64, &n) == 1)
            slack_ns = n;
        else {
            fprintf(stderr, "numabw: invalid line: %s", line);
            fclose(f);
            return -1;
        }
    }
    fclose(f);
    return 0;
}

/* Bytes that no vCPU has booked yet, less than CHUNK for each path, are added. */
static void write_counts(qemu_plugin_id_t id, void *unused)
{
    FILE *f = fopen(counts_file, "w");
    for (int c = 0; f && c < nodes; c++) {
        for (int n = 0; n < nodes; n++) {
            uint64_t loaded = totals[c][n][LOAD], stored = totals[c][n][STORE];
            for (const struct vcpu *v = vcpus; v < vcpus + MAX_CPUS; v++) {
                loaded += v->node == c ? v->bytes[n][LOAD] : 0;
                stored += v->node == c ? v->bytes[n][STORE] : 0;
            }
            if (loaded || stored)
                fprintf(f, "%d %d %" PRIu64 " %" PRIu64 "\n", c, n, loaded, stored);
        }
    }
    if (!f || fclose(f))
        fprintf(stderr, "numabw: cannot write %s\n", counts_file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
                               int argc, char **argv)
{
    if (argc < 1 || argc > 2 || strncmp(argv[0], "conf=", 5) ||
        (argc == 2 && strncmp(argv[1], "counts=", 7)) || read_conf(argv[0] + 5)) {
        fprintf(stderr, "numabw: expected the arguments conf=FILE[,counts=FILE]\n");
        return -1;
    }
    if (argc == 2 && (counts_file = strdup(argv[1] + 7)))
        qemu_plugin_register_atexit_cb(id, write_counts, NULL);
    if (info->system.max_vcpus > MAX_CPUS)
        return -1;
    for (int c = 0; c < MAX_CPUS; c++) {
        for (int p = 0; p < PAGES; p++)
            vcpus[c].pages[p].number = UINT64_MAX;
        for (int n = 0; n < MAX_NODES; n++)
            vcpus[c].paths[n].factor = 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}

/*
 * Returns the frequency of the time stamp counter, which the guest shares with
 * the host.  lab/run calls this function through ctypes and passes the result
 * to the guest's kernel, because calibration on a busy host is inaccurate.
 */
EXPORT unsigned numabw_tsc_khz(void)
{
    int64_t t0 = now_ns();
    uint64_t c0 = __rdtsc();
    struct timespec wait = { 0, 100 * 1000 * 1000 };
    nanosleep(&wait, NULL);
    int64_t t1 = now_ns();
    return (__rdtsc() - c0) * 1000000 / (t1 - t0);
}
