// A STREAM copy for the lab: one thread copies an array, and prints the bandwidth of all passes
// after the first one, counting each copied byte once (10^6 bytes are one MB).
//
// Argument: the seconds of the measurement.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	printf("Copy: %.3f MB/s\n", bytes / elapsed / 1e6);
	return 0;
}
