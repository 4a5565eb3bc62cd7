/* How fast one thread of this machine moves and computes; asked by machine.py.
 *
 * Vectors are written out, for the compiler's own loops would become calls of memcpy.  All results
 * are the best of several samples.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { WIDTH = 64 };
#define STREAM "vmovntpd"
#elif defined __AVX__
enum { WIDTH = 32 };
#define STREAM "vmovntpd"
#else
enum { WIDTH = 16 };
#define STREAM "movntpd"
#endif

typedef double vector __attribute__((vector_size(WIDTH)));
typedef float vector32 __attribute__((vector_size(WIDTH)));

enum { READ, COPY, TRIAD, STREAMING_STORE, STREAMING_COPY };

enum {
  UNROLL = 8,         /* vectors in a turn of a loop */
  CHAINS = 12,        /* independent results: more than operations wait for */
  SAMPLE = 4 << 20,   /* bytes moved between two looks at the clock, at least */
  TURNS = 20000,      /* of the loop of operations between two looks at the clock */
  LEAST = 3           /* samples */
};

/* The optimizer takes memory behind a pointer as changed, and a value as used. */
#define CHANGED(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")
#define USED(value) __asm__ volatile("" : : "m"(value))

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stream(vector *to, vector value)
{
#ifdef __SSE2__
  __asm__(STREAM " %1, %0" : "=m"(*to) : "v"(value));
#else
  *to = value;
#endif
}

/* One pass; n vectors in each of a, b and c. */
static void pass(int64_t kind, vector *a, const vector *b, const vector *c, int64_t n)
{
  const vector two = (vector){0} + 2.0;
  vector sum[UNROLL] = {{0}};
  for (int64_t i = 0; i < n; i += UNROLL) {
    switch (kind) {
    case READ:
      for (int k = 0; k < UNROLL; k++)
        sum[k] += a[i + k];
      break;
    case COPY:
      for (int k = 0; k < UNROLL; k++)
        a[i + k] = b[i + k];
      break;
    case TRIAD:
      for (int k = 0; k < UNROLL; k++)
        a[i + k] = b[i + k] + two * c[i + k];
      break;
    case STREAMING_STORE:
      for (int k = 0; k < UNROLL; k++)
        stream(a + i + k, two);
      break;
    default:
      for (int k = 0; k < UNROLL; k++)
        stream(a + i + k, b[i + k]);
    }
    CHANGED(a);
  }
  vector total = {0};
  for (int k = 0; k < UNROLL; k++)
    total += sum[k];
  USED(total);
#ifdef __SSE2__
  __builtin_ia32_sfence();
#endif
}

/* Bytes per second of one kind of traffic over `bytes` of `memory`, which is aligned to a page. */
double machine_bandwidth(int64_t kind, char *memory, int64_t bytes, double seconds)
{
  const int64_t arrays[] = {1, 2, 3, 1, 2};
  const int64_t parts = arrays[kind], turn = UNROLL * WIDTH;
  const int64_t n = bytes / parts / turn * UNROLL, each = n * WIDTH;
  vector *a = (vector *)memory, *b = (vector *)(memory + each), *c = b + n;
  const int64_t repeats = 1 + SAMPLE / (parts * each);
  const double end = now() + seconds;
  double best = 0;
  for (int sample = -1; sample < LEAST || now() < end; sample++) { /* the first only warms up */
    const double start = now();
    for (int64_t k = 0; k < repeats; k++)
      pass(kind, a, b, parts == 3 ? c : b, n);
    const double rate = (double)(repeats * parts * each) / (now() - start);
    if (sample >= 0 && rate > best)
      best = rate;
  }
  return best;
}

#define PEAK(NAME, TYPE, NUMBER)                                                        \
  /* Operations per second of multiplications and additions, one of each at a time. */  \
  double NAME(double seconds)                                                           \
  {                                                                                     \
    const TYPE by = (TYPE){0} + (NUMBER)0.999, more = (TYPE){0} + (NUMBER)0.001;        \
    TYPE x[CHAINS] = {{0}};                                                             \
    const double end = now() + seconds;                                                 \
    double best = 0;                                                                    \
    for (int sample = 0; sample < LEAST || now() < end; sample++) {                     \
      const double start = now();                                                       \
      for (int64_t k = 0; k < TURNS; k++)                                               \
        for (int j = 0; j < CHAINS; j++)                                                \
          x[j] = x[j] * by + more;                                                      \
      TYPE total = {0};                                                                 \
      for (int j = 0; j < CHAINS; j++)                                                  \
        total += x[j];                                                                  \
      USED(total);                                                                      \
      const double count = 2.0 * CHAINS * TURNS * (WIDTH / sizeof(NUMBER));             \
      const double rate = count / (now() - start);                                      \
      best = rate > best ? rate : best;                                                 \
    }                                                                                   \
    return best;                                                                        \
  }

PEAK(machine_peak_float32, vector32, float)
PEAK(machine_peak_float64, vector, double)
