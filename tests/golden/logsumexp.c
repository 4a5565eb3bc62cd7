/*
 * elemc kernel logsumexp
 *
 * z = logsumexp(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
enum { LANES = 32, BLOCK = 4096, TREE = 40 };
extern double elemc_exp(double) SIMD;
extern double elemc_log(double) SIMD;

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  return a > b || a != a ? a : b;
}

int kernel_logsumexp(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, const int64_t *tune, char *const *w)
{
  /* extents */
  const int64_t n0 = n[0], n1 = n[1];
  /* operands: pointers, and strides in bytes */
  const char *const x_p = p[0];
  const int64_t x_s0 = s[0], x_s1 = 8;
  char *const z_p = p[1];
  const int64_t z_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* max0: max along i1, in lanes */
    double max0, max0_lane[LANES];
    for (int l = 0; l < LANES; l++)
      max0_lane[l] = -__builtin_inf();
    int64_t max0_i = 0;
    for (; max0_i + LANES <= n1; max0_i += LANES)
      for (int64_t l = 0, i1 = max0_i; l < LANES; l++, i1++)
        max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    for (int64_t l = 0, i1 = max0_i; i1 < n1; l++, i1++)
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    for (int h = LANES / 2; h > 0; h /= 2)
      for (int l = 0; l < h; l++)
        max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
    max0 = max0_lane[0];
    /* sum0: sum along i1, in lanes */
    double sum0, sum0_lane[LANES], sum0_tree[TREE];
    int64_t sum0_count = 0, sum0_top = 0;
    for (int64_t b1 = 0; b1 < n1; b1 += BLOCK, sum0_count++) {
      const int64_t e1 = b1 + BLOCK < n1 ? b1 + BLOCK : n1;
      for (int l = 0; l < LANES; l++)
        sum0_lane[l] = 0.0;
      int64_t sum0_i = b1;
      for (; sum0_i + LANES <= e1; sum0_i += LANES)
        for (int64_t l = 0, i1 = sum0_i; l < LANES; l++, i1++) {
          const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
          sum0_lane[l] = sum0_lane[l] + elemc_exp(x_v == max0 ? 0 : x_v - max0);
        }
      for (int64_t l = 0, i1 = sum0_i; i1 < e1; l++, i1++) {
        const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        sum0_lane[l] = sum0_lane[l] + elemc_exp(x_v == max0 ? 0 : x_v - max0);
      }
      for (int h = LANES / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++)
          sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
      sum0 = sum0_lane[0];
      for (int64_t c = sum0_count; c & 1; c >>= 1, sum0_top--)
        sum0 = sum0_tree[sum0_top - 1] + sum0;
      sum0_tree[sum0_top++] = sum0;
    }
    sum0 = sum0_top ? sum0_tree[sum0_top - 1] : 0.0;
    while (--sum0_top > 0)
      sum0 = sum0_tree[sum0_top - 1] + sum0;
    AT(double, z_p, i0 * z_s0) = elemc_log(sum0) + max0;
  }
  return 0;
}
