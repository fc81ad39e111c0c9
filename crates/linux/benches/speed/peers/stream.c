/* STREAM's operations after McCalpin's rules, reimplemented: static arrays whose length the compiler knows,
 * one parallel loop a pass. usage: stream copy|scale|add|triad SECONDS; prints bytes per second. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DOUBLES
#error "compile with -DDOUBLES=length of each array"
#endif

static double a[DOUBLES], b[DOUBLES], c[DOUBLES];

static int pass(const char *op)
{
    const double s = 3.0;
    if (!strcmp(op, "copy")) {
#pragma omp parallel for
        for (size_t i = 0; i < DOUBLES; i++)
            c[i] = a[i];
        return 2;
    }
    if (!strcmp(op, "scale")) {
#pragma omp parallel for
        for (size_t i = 0; i < DOUBLES; i++)
            b[i] = s * c[i];
        return 2;
    }
    if (!strcmp(op, "add")) {
#pragma omp parallel for
        for (size_t i = 0; i < DOUBLES; i++)
            c[i] = a[i] + b[i];
        return 3;
    }
#pragma omp parallel for
    for (size_t i = 0; i < DOUBLES; i++)
        a[i] = b[i] + s * c[i];
    return 3;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    double seconds = atof(argv[2]);
#pragma omp parallel for
    for (size_t i = 0; i < DOUBLES; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }
    double bytes = 0.0, now;
    pass(argv[1]);
    double began = omp_get_wtime();
    do {
        bytes += (double)pass(argv[1]) * sizeof(double) * DOUBLES;
        now = omp_get_wtime();
    } while (now - began < seconds);
    printf("%.0f\n", bytes / (now - began));
    /* Keeps the compiler from removing the stores. */
    return a[DOUBLES / 2] + b[DOUBLES / 3] + c[DOUBLES / 5] == 0.0;
}
