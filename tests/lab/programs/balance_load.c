// A load for comparisons of balancers: one thread loads the first HOT_MIB of its memory in a loop.
// With a DEVICE, another thread reads it with O_DIRECT into the same memory; with "buffered" through the page cache, which it drops.
//
// Writes the bytes so far to the file PROGRESS: those of the device, or else those loaded.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static uint64_t *memory;
static size_t hot;
static int flags = O_RDONLY | O_DIRECT;
static atomic_ullong loaded, transferred;

static void *load(void *unused)
{
	(void)unused;
	for (;;) {
		for (size_t at = 0; at < hot; at += BLOCK) {
			uint64_t sum = 0;
			for (size_t i = 0; i < BLOCK / sizeof *memory; i++)
				sum += memory[at / sizeof *memory + i];
			// Keeps the compiler from removing the loop.
			__asm__ volatile("" : : "r"(sum) : "memory");
			loaded += BLOCK;
		}
	}
	return NULL;
}

static void *transfer(void *device)
{
	int file = open(device, flags);
	off_t offset = 0;
	for (size_t at = 0; file >= 0; at = (at + BLOCK) % hot) {
		ssize_t bytes = pread(file, (char *)memory + at, BLOCK, offset);
		if (bytes < 0)
			break;
		if (!(flags & O_DIRECT))
			posix_fadvise(file, offset, bytes, POSIX_FADV_DONTNEED);
		offset = bytes ? offset + bytes : 0;
		transferred += (unsigned long long)bytes;
	}
	perror(device);
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc < 4 || atoi(argv[1]) < 1) {
		fprintf(stderr, "usage: balance_load HOT_MIB COLD_MIB PROGRESS [DEVICE [buffered]]\n");
		return 1;
	}
	if (argc > 5)
		flags = O_RDONLY;
	hot = (size_t)atoi(argv[1]) << 20;
	size_t bytes = hot + ((size_t)atoi(argv[2]) << 20);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	memset(memory, 1, bytes);
	pthread_t thread;
	if (pthread_create(&thread, NULL, load, NULL) != 0)
		return 1;
	if (argc > 4 && pthread_create(&thread, NULL, transfer, argv[4]) != 0)
		return 1;
	int progress = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	for (;;) {
		char text[32];
		int length = snprintf(text, sizeof text, "%20llu\n", argc > 4 ? transferred : loaded);
		if (pwrite(progress, text, (size_t)length, 0) != length)
			return 1;
		usleep(100000);
	}
}
