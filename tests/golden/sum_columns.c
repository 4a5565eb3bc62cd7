/*
 * elemc kernel sum_columns
 *
 * z = sum(x, axis=0)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define LEVELS(parts) (64 - __builtin_clzll((parts) | 1)) /* of a pairwise tree */
#define UNROLL _Pragma("GCC unroll 4")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { STRIP = 1024, RUN = 4, ROWS = 64 };
extern void elemc_pull_sum_f64(const double *tree, int64_t count, double *total, int64_t width); /* the total of what was pushed */
extern void elemc_push_sum_f64(double *tree, int64_t count, double *part, int64_t width); /* onto a pairwise tree, which takes `part` */

int kernel_sum_columns(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = 8, x_s1 = s[0]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t b0 = begin; b0 < end; b0 += STRIP) {
    const int w0 = end - b0 < STRIP ? (int)(end - b0) : STRIP;
    /* sum0: sum along i1 */
    _Alignas(64) double sum0[STRIP], sum0_tree[LEVELS(n1 / ROWS + 1) * w0];
    int64_t sum0_count = 0;
    for (int64_t b1 = 0; b1 < n1; b1 += ROWS, sum0_count++) {
      const int64_t e1 = b1 + ROWS < n1 ? b1 + ROWS : n1;
      for (int l = 0; l < w0; l++)
        sum0[l] = 0.0;
      for (int64_t k = b1 / RUN; k < e1 / RUN; k++) {
        INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++) {
          double sum0_l = sum0[l];
          UNROLL for (int64_t r = 0, i1 = k * RUN; r < RUN; r++, i1++)
            sum0_l = sum0_l + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
          sum0[l] = sum0_l;
        }
      }
      for (int64_t i1 = e1 / RUN * RUN; i1 < e1; i1++) {
        INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
          sum0[l] = sum0[l] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
      }
      if (n1 > ROWS) elemc_push_sum_f64(sum0_tree, sum0_count, sum0, w0);
    }
    if (n1 > ROWS || !n1) elemc_pull_sum_f64(sum0_tree, sum0_count, sum0, w0);
    INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
      AT(double, z_p, i0 * z_s0) = sum0[l];
  }
  return 0;
}
