// The operations as BabelStream's OpenMP implementation writes them, reimplemented: arrays from the heap whose
// length is known at run time, a function for each operation.
// usage: babel copy|scale|add|triad DOUBLES SECONDS; prints bytes per second.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

template <typename T> class Arrays
{
    std::size_t length;
    T *a, *b, *c;
    static constexpr T scalar = 0.4;

    static T *allocate(std::size_t length)
    {
        return static_cast<T *>(std::aligned_alloc(2 << 20, (length * sizeof(T) + (2 << 20) - 1) >> 21 << 21));
    }

  public:
    explicit Arrays(std::size_t length)
        : length(length), a(allocate(length)), b(allocate(length)), c(allocate(length))
    {
#pragma omp parallel for
        for (std::size_t i = 0; i < length; i++) {
            a[i] = 0.1;
            b[i] = 0.2;
            c[i] = 0.3;
        }
    }

    double copy()
    {
#pragma omp parallel for
        for (std::size_t i = 0; i < length; i++)
            c[i] = a[i];
        return 2.0 * sizeof(T) * length;
    }

    double scale()
    {
#pragma omp parallel for
        for (std::size_t i = 0; i < length; i++)
            b[i] = scalar * c[i];
        return 2.0 * sizeof(T) * length;
    }

    double add()
    {
#pragma omp parallel for
        for (std::size_t i = 0; i < length; i++)
            c[i] = a[i] + b[i];
        return 3.0 * sizeof(T) * length;
    }

    double triad()
    {
#pragma omp parallel for
        for (std::size_t i = 0; i < length; i++)
            a[i] = b[i] + scalar * c[i];
        return 3.0 * sizeof(T) * length;
    }

    double pass(const std::string &op)
    {
        return op == "copy" ? copy() : op == "scale" ? scale() : op == "add" ? add() : triad();
    }
};

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const std::string op = argv[1];
    const double seconds = std::atof(argv[3]);
    Arrays<double> arrays(std::strtoull(argv[2], nullptr, 10));
    arrays.pass(op);
    double bytes = 0.0, passed;
    const auto began = std::chrono::steady_clock::now();
    do {
        bytes += arrays.pass(op);
        passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    } while (passed < seconds);
    std::printf("%.0f\n", bytes / passed);
    return 0;
}
