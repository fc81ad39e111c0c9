/* Looks like QEMU with two vCPUs to the kernel: named threads, and 24 MiB of memory in a mapping. It
 * allocates the memory where it starts. Built as qemu-system-x86_64, which numaio recognizes. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RAM_BYTES (24 << 20)

static void *vcpu(void *number)
{
    char name[16];

    snprintf(name, sizeof(name), "CPU %d/TCG", (int)(long)number);
    pthread_setname_np(pthread_self(), name);
    for (;;)
        pause();
}

int main(void)
{
    pthread_t thread;
    void *ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ram == MAP_FAILED)
        return 1;
    memset(ram, 1, RAM_BYTES);
    for (long number = 0; number < 2; number++)
        if (pthread_create(&thread, NULL, vcpu, (void *)number) != 0)
            return 1;
    for (;;)
        pause();
}
