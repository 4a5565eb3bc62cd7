/*
 * elemc kernel matrix_product
 *
 * z = sum(x[:, :, None] * y[None, :, :], axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i2]: float64, contiguous
 * in y[i1, i2]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define LEVELS(parts) (64 - __builtin_clzll((parts) | 1)) /* of a pairwise tree */
#define UNROLL _Pragma("GCC unroll 4")
#define UNROLL_8 _Pragma("GCC unroll 8")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { STRIP = 128, RUN = 4, ROWS = 64 };
extern void elemc_pull_sum_f64(const double *tree, int64_t count, double *total, int64_t width); /* the total of what was pushed */
extern void elemc_push_sum_f64(double *tree, int64_t count, double *part, int64_t width); /* onto a pairwise tree, which takes `part` */

int kernel_matrix_product(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1], n2 = n[2]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s2 = 8; /* operands, strides in bytes */
  const char *const y_p = p[1]; const int64_t y_s1 = 8, y_s2 = s[1];
  char *const z_p = p[2]; const int64_t z_s0 = s[2], z_s1 = 8;

  /* i0 by sixes, which fold the same rows; the last may be folded again */
  for (int64_t b0 = begin; b0 < end; b0 += 6) {
    for (int64_t b1 = 0; b1 < n1; b1 += STRIP) {
      const int w1 = n1 - b1 < STRIP ? (int)(n1 - b1) : STRIP;
      /* sum0: sum along i2 */
      _Alignas(64) double sum0[6][STRIP], sum0_tree[6][LEVELS(n2 / ROWS + 1) * w1];
      int64_t sum0_count = 0;
      for (int64_t b2 = 0; b2 < n2; b2 += ROWS, sum0_count++) {
        const int64_t e2 = b2 + ROWS < n2 ? b2 + ROWS : n2;
        for (int l = 0; l < w1; l++)
          UNROLL_8 for (int m = 0; m < 6; m++)
            sum0[m][l] = 0.0;
        for (int64_t k = b2 / RUN; k < e2 / RUN; k++) {
          INDEPENDENT for (int64_t l = 0, i1 = b1; l < w1; l++, i1++) {
            double sum0_l[6];
            UNROLL_8 for (int m = 0; m < 6; m++)
              sum0_l[m] = sum0[m][l];
            UNROLL for (int64_t r = 0, i2 = k * RUN; r < RUN; r++, i2++)
              UNROLL_8 for (int m = 0; m < 6; m++) {
                const int64_t i0 = b0 + m < end ? b0 + m : end - 1;
                const double x_v = AT(const double, x_p, i0 * x_s0 + i2 * x_s2);
                sum0_l[m] = sum0_l[m] + x_v * AT(const double, y_p, i1 * y_s1 + i2 * y_s2);
              }
            UNROLL_8 for (int m = 0; m < 6; m++)
              sum0[m][l] = sum0_l[m];
          }
        }
        for (int64_t i2 = e2 / RUN * RUN; i2 < e2; i2++) {
          INDEPENDENT for (int64_t l = 0, i1 = b1; l < w1; l++, i1++)
            UNROLL_8 for (int m = 0; m < 6; m++) {
              const int64_t i0 = b0 + m < end ? b0 + m : end - 1;
              const double x_v = AT(const double, x_p, i0 * x_s0 + i2 * x_s2);
              sum0[m][l] = sum0[m][l] + x_v * AT(const double, y_p, i1 * y_s1 + i2 * y_s2);
            }
        }
        if (n2 > ROWS) for (int m = 0; m < 6; m++)
          elemc_push_sum_f64(sum0_tree[m], sum0_count, sum0[m], w1);
      }
      if (n2 > ROWS || !n2) for (int m = 0; m < 6; m++)
        elemc_pull_sum_f64(sum0_tree[m], sum0_count, sum0[m], w1);
      INDEPENDENT for (int64_t l = 0, i1 = b1; l < w1; l++, i1++)
        UNROLL_8 for (int m = 0; m < 6; m++) {
          const int64_t i0 = b0 + m < end ? b0 + m : end - 1;
          AT(double, z_p, i0 * z_s0 + i1 * z_s1) = sum0[m][l];
        }
    }
  }
  return 0;
}
