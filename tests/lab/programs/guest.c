/* Looks like QEMU with two vCPUs to the kernel: named threads, a worker, and 24 MiB of memory in a
 * mapping. It allocates 16 MiB where it starts, and 8 MiB on CPU 0 if it may run there. Built as
 * qemu-system-x86_64, which numaio recognizes. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RAM_BYTES (24 << 20)
#define LOCAL_BYTES (16 << 20)

static void *thread_main(void *number)
{
    char name[16] = "worker";

    if ((long)number < 2)
        snprintf(name, sizeof(name), "CPU %d/TCG", (int)(long)number);
    pthread_setname_np(pthread_self(), name);
    for (;;)
        pause();
}

int main(void)
{
    cpu_set_t own, first;
    pthread_t thread;
    char *ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ram == MAP_FAILED || sched_getaffinity(0, sizeof(own), &own) != 0)
        return 1;
    memset(ram, 1, LOCAL_BYTES);
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof(first), &first);
    memset(ram + LOCAL_BYTES, 1, RAM_BYTES - LOCAL_BYTES);
    if (sched_setaffinity(0, sizeof(own), &own) != 0)
        return 1;
    for (long number = 0; number < 3; number++)
        if (pthread_create(&thread, NULL, thread_main, (void *)number) != 0)
            return 1;
    for (;;)
        pause();
}
