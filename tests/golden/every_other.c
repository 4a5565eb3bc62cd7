/*
 * elemc kernel every_other
 *
 * z = max(x[:, ::2], axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16 };

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

typedef int64_t apart_f64 __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));

/* Elements a step apart, the first of them at `from`, beside `before` others that are not wanted: whole vectors
   are loaded, `lanes` times |step| elements, and all that lies between is dropped. */
static inline void every_f64(double *to, const char *from, int before, int step, int lanes)
{
  enum { SIZE = sizeof(apart_f64), N = SIZE / sizeof(double) };
  const int apart = step < 0 ? -step : step;
#pragma GCC unroll 16
  for (int q = 0; q < lanes / N; q++) {
    const char *block = step < 0 ? from + sizeof(double) - SIZE * apart * (q + 1) : from + SIZE * apart * q;
    apart_f64 found, next, place;
    __builtin_memcpy(&found, block, SIZE);
#pragma GCC unroll 4
    for (int k = 1; k < apart; k++) { /* what later vectors hold is found when it is their turn */
      __builtin_memcpy(&next, block + SIZE * k, SIZE);
#pragma GCC unroll 16
      for (int i = 0, at = step < 0 ? N * apart - 1 - before : before; i < N; i++, at += step)
        place[i] = at >= k * N ? N + at % N : k == 1 ? at : i;
#ifdef __clang__
      apart_f64 both;
      for (int i = 0; i < N; i++)
        both[i] = place[i] < N ? found[place[i]] : next[place[i] - N];
      found = both;
#else
      found = __builtin_shuffle(found, next, place);
#endif
    }
    __builtin_memcpy(to + q * N, &found, SIZE);
  }
}

int kernel_every_other(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = s[1]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* max0: max along i1, in lanes */
    double max0 = -__builtin_inf();
    if (n1 >= LANES) {
      double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
      for (int64_t k = 0; k < (n1 - 1) / LANES; k++) {
        double x_apart[LANES];
        every_f64(x_apart, x_p + i0 * x_s0 + k * LANES * x_s1, 0, 2, LANES);
        UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
          max0_lane[l] = maximum_f64(max0_lane[l], x_apart[l]);
      }
      UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++)
        max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
      UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
        max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
      max0 = max0_lane[0];
    }
    for (int64_t i1 = n1 - (n1 < LANES ? n1 % LANES : 0); i1 < n1; i1++)
      max0 = maximum_f64(max0, AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    AT(double, z_p, i0 * z_s0) = max0;
  }
  return 0;
}
