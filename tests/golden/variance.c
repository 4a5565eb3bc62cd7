/*
 * elemc kernel variance
 *
 * z = var(x, axis=1, ddof=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16, BLOCK = 4096, TREE = 40 };

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_variance(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  const double t0 = maximum_f64((double)n1 - 1.0, 0.0);
  for (int64_t i0 = begin; i0 < end; i0++) {
    /* sum0: sum along i1, in lanes */
    double sum0 = 0.0, sum0_tree[TREE]; int64_t sum0_top = 0;
    for (int64_t b1 = 0; b1 < n1; b1 += BLOCK) {
      const int64_t e1 = b1 + BLOCK < n1 ? b1 + BLOCK : n1;
      sum0 = 0.0;
      if (e1 - b1 >= LANES) {
        double sum0_lane[LANES] = {0};
        for (int64_t k = b1 / LANES; k < e1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
          sum0_lane[l] = sum0_lane[l] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        UNROLL for (int64_t l = 0, i1 = e1 - LANES; l < LANES; l++, i1++) {
          const double sum0_next = sum0_lane[l] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
          sum0_lane[l] = l < LANES - e1 % LANES ? sum0_lane[l] : sum0_next;
        }
        UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
          sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
        sum0 = sum0_lane[0];
      }
      for (int64_t i1 = e1 - (e1 - b1 < LANES ? e1 % LANES : 0); i1 < e1; i1++)
        sum0 = sum0 + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
      for (int64_t c = b1 / BLOCK; c & 1; c >>= 1, sum0_top--) sum0 = sum0_tree[sum0_top - 1] + sum0;
      sum0_tree[sum0_top++] = sum0;
    }
    while (--sum0_top > 0) sum0 = sum0_tree[sum0_top - 1] + sum0;
    const double t1 = sum0 / (double)n1;
    /* sum1: sum along i1, in lanes */
    double sum1 = 0.0, sum1_tree[TREE]; int64_t sum1_top = 0;
    for (int64_t b1 = 0; b1 < n1; b1 += BLOCK) {
      const int64_t e1 = b1 + BLOCK < n1 ? b1 + BLOCK : n1;
      sum1 = 0.0;
      if (e1 - b1 >= LANES) {
        double sum1_lane[LANES] = {0};
        for (int64_t k = b1 / LANES; k < e1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
          const double t2 = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) - t1;
          sum1_lane[l] = sum1_lane[l] + t2 * t2;
        }
        UNROLL for (int64_t l = 0, i1 = e1 - LANES; l < LANES; l++, i1++) {
          const double t2 = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) - t1;
          const double sum1_next = sum1_lane[l] + t2 * t2;
          sum1_lane[l] = l < LANES - e1 % LANES ? sum1_lane[l] : sum1_next;
        }
        UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
          sum1_lane[l] = sum1_lane[l] + sum1_lane[l + h];
        sum1 = sum1_lane[0];
      }
      for (int64_t i1 = e1 - (e1 - b1 < LANES ? e1 % LANES : 0); i1 < e1; i1++) {
        const double t2 = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) - t1;
        sum1 = sum1 + t2 * t2;
      }
      for (int64_t c = b1 / BLOCK; c & 1; c >>= 1, sum1_top--) sum1 = sum1_tree[sum1_top - 1] + sum1;
      sum1_tree[sum1_top++] = sum1;
    }
    while (--sum1_top > 0) sum1 = sum1_tree[sum1_top - 1] + sum1;
    AT(double, z_p, i0 * z_s0) = sum1 / t0;
  }
  return 0;
}
