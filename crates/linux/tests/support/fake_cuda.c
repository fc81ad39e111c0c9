/* A CUDA driver library without a GPU, for tests: two devices, each with a copy engine for either direction that moves
 * a configured number of bytes a second. A copy is made when it is asked for, and counts as done when the engine would
 * have done it. Misuse is an error, as the driver's: memory that is not pinned or not allocated, a thread without a
 * context, objects that were given back, memory given back while a copy uses it.
 *
 * Chosen when it is compiled:
 *   DEVICES         how many there are
 *   WRITE_RATE      bytes a second to a device, READ_RATE from it
 *   INIT_CODE       what cuInit gives
 *   LOST_AFTER      copies after which the device is lost; 0 for never
 *   DEVICE_BYTES    memory of a device
 *   PIN_CODE        what cuMemHostRegister gives
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef WRITE_RATE
#define WRITE_RATE 800000000.0
#endif
#ifndef READ_RATE
#define READ_RATE 400000000.0
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef LOST_AFTER
#define LOST_AFTER 0
#endif
#ifndef DEVICE_BYTES
#define DEVICE_BYTES (1 << 30)
#endif
#ifndef PIN_CODE
#define PIN_CODE 0
#endif

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_DEVICE = 101,
       INVALID_HANDLE = 400, NOT_READY = 600, LOST = 999, ALREADY_PINNED = 712, NOT_PINNED = 713 };

struct context { int device, retained; };
struct range { uintptr_t start; size_t bytes; double until; struct range *next; };
struct stream { int magic; double until; struct context *of; };
struct event { int magic; double until; };

static const int STREAM = 0x57, EVENT = 0xe7;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[DEVICES + 1];
static double busy_until[DEVICES + 1][2];
static struct range *pinned, *allocated;
static size_t allocated_bytes;
static int ready, copies, objects, misuses;
static __thread struct context *current;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int lost(void) { return LOST_AFTER && copies >= LOST_AFTER; }

static struct range *holds(struct range *of, uintptr_t start, size_t bytes) {
    for (; of; of = of->next)
        if (start >= of->start && start + bytes <= of->start + of->bytes) return of;
    return NULL;
}

static void add(struct range **to, uintptr_t start, size_t bytes) {
    struct range *range = malloc(sizeof *range);
    *range = (struct range){start, bytes, 0, *to};
    *to = range;
    objects++;
}

static size_t drop(struct range **from, uintptr_t start) {
    for (; *from; from = &(*from)->next)
        if ((*from)->start == start) {
            struct range *gone = *from;
            size_t bytes = gone->bytes;
            if (gone->until > now() && !lost()) misuses++;
            *from = gone->next;
            free(gone);
            objects--;
            return bytes;
        }
    return 0;
}

#define LOCKED(code) do { pthread_mutex_lock(&lock); int r = (code); pthread_mutex_unlock(&lock); return r; } while (0)

/* For tests: what was made and not given back, or given back while a copy used it. */
int fake_objects(void) { LOCKED(objects + misuses); }

int cuInit(unsigned flags) { (void)flags; ready = INIT_CODE == 0; return INIT_CODE; }

int cuGetErrorName(int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {600, "CUDA_ERROR_NOT_READY"},
        {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"}, {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        {800, "CUDA_ERROR_NOT_PERMITTED"}, {999, "CUDA_ERROR_UNKNOWN"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) { *name = names[i].name; return 0; }
    *name = NULL;
    return INVALID_VALUE;
}

int cuDeviceGetCount(int *count) { *count = DEVICES; return ready ? 0 : NOT_INITIALIZED; }

int cuDeviceGet(int *device, int index) {
    if (index < 0 || index >= DEVICES) return INVALID_DEVICE;
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int room, int device) {
    snprintf(name, room, "Fake GPU %c", 'A' + device);
    return 0;
}

int cuDeviceGetPCIBusId(char *address, int room, int device) {
    snprintf(address, room, "0000:%02X:00.0", 0xf0 + device);
    return 0;
}

static int retain(void **context, int device) {
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    contexts[device].device = device;
    contexts[device].retained++;
    objects++;
    *context = &contexts[device];
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { LOCKED(retain(context, device)); }

static int release(int device) {
    if (!contexts[device].retained) return INVALID_CONTEXT;
    contexts[device].retained--;
    objects--;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) { LOCKED(release(device)); }

int cuCtxSetCurrent(void *context) { current = context; return 0; }

static int pin(uintptr_t start, size_t bytes) {
    if (!current) return INVALID_CONTEXT;
    if (PIN_CODE) return PIN_CODE;
    if (!bytes) return INVALID_VALUE;
    if (holds(pinned, start, 1)) return ALREADY_PINNED;
    add(&pinned, start, bytes);
    return 0;
}

int cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags) {
    (void)flags;
    LOCKED(pin((uintptr_t)start, bytes));
}

int cuMemHostUnregister(void *start) { LOCKED(drop(&pinned, (uintptr_t)start) ? 0 : NOT_PINNED); }

static int take(uint64_t *address, size_t bytes) {
    void *memory;
    if (!current) return INVALID_CONTEXT;
    if (allocated_bytes + bytes > DEVICE_BYTES || !(memory = malloc(bytes))) return OUT_OF_MEMORY;
    allocated_bytes += bytes;
    add(&allocated, (uintptr_t)memory, bytes);
    *address = (uintptr_t)memory;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) { LOCKED(take(address, bytes)); }

static int give_back(uint64_t address) {
    size_t bytes = drop(&allocated, address);
    if (!bytes) return INVALID_VALUE;
    allocated_bytes -= bytes;
    free((void *)(uintptr_t)address);
    return 0;
}

int cuMemFree_v2(uint64_t address) { LOCKED(give_back(address)); }

static int copy(uint64_t device, uintptr_t host, size_t bytes, struct stream *stream, int reads) {
    if (!current) return INVALID_CONTEXT;
    if (!stream || stream->magic != STREAM) return INVALID_HANDLE;
    if (lost()) return LOST;
    struct range *here = holds(pinned, host, bytes), *there = holds(allocated, device, bytes);
    if (!here || !there) return INVALID_VALUE;
    if (reads)
        memcpy((void *)host, (void *)(uintptr_t)device, bytes);
    else
        memcpy((void *)(uintptr_t)device, (void *)host, bytes);
    double *engine = &busy_until[stream->of->device][reads], from = now();
    if (from < *engine) from = *engine;
    if (from < stream->until) from = stream->until;
    *engine = stream->until = here->until = there->until = from + bytes / (reads ? READ_RATE : WRITE_RATE);
    copies++;
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    LOCKED(copy(to, (uintptr_t)from, bytes, stream, 0));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    LOCKED(copy(from, (uintptr_t)to, bytes, stream, 1));
}

static int make_stream(void **made) {
    if (!current) return INVALID_CONTEXT;
    struct stream *stream = malloc(sizeof *stream);
    *stream = (struct stream){STREAM, 0, current};
    objects++;
    *made = stream;
    return 0;
}

int cuStreamCreate(void **made, unsigned flags) { (void)flags; LOCKED(make_stream(made)); }

int cuStreamSynchronize(void *stream) {
    double left = ((struct stream *)stream)->until - now();
    if (lost()) return LOST;
    if (left > 0) {
        struct timespec t = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
        nanosleep(&t, NULL);
    }
    return 0;
}

static int destroy(int *magic, int kind) {
    if (*magic != kind) return INVALID_HANDLE;
    *magic = 0;
    objects--;
    free(magic);
    return 0;
}

int cuStreamDestroy_v2(void *stream) { LOCKED(destroy(&((struct stream *)stream)->magic, STREAM)); }

static int make_event(void **made) {
    if (!current) return INVALID_CONTEXT;
    struct event *event = malloc(sizeof *event);
    *event = (struct event){EVENT, 0};
    objects++;
    *made = event;
    return 0;
}

int cuEventCreate(void **made, unsigned flags) { (void)flags; LOCKED(make_event(made)); }

static int record(struct event *event, struct stream *stream) {
    if (event->magic != EVENT || stream->magic != STREAM) return INVALID_HANDLE;
    event->until = stream->until;
    return 0;
}

int cuEventRecord(void *event, void *stream) { LOCKED(record(event, stream)); }

static int query(struct event *event) {
    if (event->magic != EVENT) return INVALID_HANDLE;
    if (lost()) return LOST;
    return now() >= event->until ? 0 : NOT_READY;
}

int cuEventQuery(void *event) { LOCKED(query(event)); }

int cuEventDestroy_v2(void *event) { LOCKED(destroy(&((struct event *)event)->magic, EVENT)); }
