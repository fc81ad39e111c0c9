// A STREAM copy for the lab: one thread copies an array, and prints the bandwidth of all passes
// after the first one, counting each copied byte once (10^6 bytes are one MB).
//
// Argument: the seconds of the measurement. If STREAM_LOG names a file, a line is added to it: the
// node of the CPU, the node of the arrays, and the bytes that the program loaded and stored.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 256 << 10 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void copy(double *restrict to, const double *restrict from)
{
	for (size_t i = 0; i < ELEMENTS; i++)
		to[i] = from[i];
	// Keeps the compiler from replacing the loop by memcpy, which is slow in the emulator.
	__asm__ volatile("" : : "r"(to) : "memory");
}

// Returns whether the line was added.
static int log_bytes(const void *array, double accessed)
{
	enum { MPOL_F_NODE = 1, MPOL_F_ADDR = 2 };
	const char *name = getenv("STREAM_LOG");
	unsigned cpu_node = 0;
	int memory_node = 0;
	if (!name)
		return 1;
	if (syscall(SYS_getcpu, NULL, &cpu_node, NULL) != 0 ||
	    syscall(SYS_get_mempolicy, &memory_node, NULL, 0, array, MPOL_F_NODE | MPOL_F_ADDR) != 0)
		return 0;
	FILE *log = fopen(name, "a");
	if (!log)
		return 0;
	fprintf(log, "%u %d %.0f\n", cpu_node, memory_node, accessed);
	return fclose(log) == 0;
}

int main(int argc, char **argv)
{
	double limit = argc > 1 ? atof(argv[1]) : 1.0;
	double *from = malloc(ELEMENTS * sizeof *from), *to = malloc(ELEMENTS * sizeof *to);
	if (!from || !to || limit <= 0) {
		fprintf(stderr, "usage: stream SECONDS\n");
		return 1;
	}
	for (size_t i = 0; i < ELEMENTS; i++)
		from[i] = (double)i;
	copy(to, from);
	double start = now(), elapsed = 0, bytes = 0;
	while (elapsed < limit) {
		copy(to, from);
		bytes += ELEMENTS * sizeof *from;
		elapsed = now() - start;
	}
	if (memcmp(from, to, ELEMENTS * sizeof *from) != 0)
		return 1;
	// Filled once, copied once before the measurement, and compared at the end.
	double accessed = 2 * bytes + 5.0 * ELEMENTS * sizeof *from;
	if (!log_bytes(from, accessed))
		return 1;
	printf("Copy: %.3f MB/s\n", bytes / elapsed / 1e6);
	return 0;
}
