/*
 * elemc kernel extremes
 *
 * z0 = min(x, axis=1)
 *   z0: broadcast, order f
 * z1 = max(x, axis=1)
 *   z1: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z0[i0]: float64, contiguous
 * out z1[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16 };

/* the smaller; NaN if either is */
static inline double minimum_f64(double a, double b)
{
  const double best = b < a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_extremes(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z0_p = p[1]; const int64_t z0_s0 = 8;
  char *const z1_p = p[2]; const int64_t z1_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* min0: min, max0: max along i1, in lanes */
    double min0 = __builtin_inf();
    double max0 = -__builtin_inf();
    if (n1 >= LANES) {
      double min0_lane[LANES] = {[0 ... LANES - 1] = __builtin_inf()};
      double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
      for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
        const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        min0_lane[l] = minimum_f64(min0_lane[l], x_v);
        max0_lane[l] = maximum_f64(max0_lane[l], x_v);
      }
      UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
        const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        min0_lane[l] = minimum_f64(min0_lane[l], x_v);
        max0_lane[l] = maximum_f64(max0_lane[l], x_v);
      }
      UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
        min0_lane[l] = minimum_f64(min0_lane[l], min0_lane[l + h]), max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
      min0 = min0_lane[0], max0 = max0_lane[0];
    }
    for (int64_t i1 = n1 - (n1 < LANES ? n1 % LANES : 0); i1 < n1; i1++) {
      const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
      min0 = minimum_f64(min0, x_v);
      max0 = maximum_f64(max0, x_v);
    }
    AT(double, z0_p, i0 * z0_s0) = min0;
    AT(double, z1_p, i0 * z1_s0) = max0;
  }
  return 0;
}
