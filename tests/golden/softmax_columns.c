/*
 * elemc kernel softmax_columns
 *
 * z = exp(x - max(x, axis=0)[None, :]) / sum(exp(x - max(x, axis=0)[None, :]), axis=0)[None, :]
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define LEVELS(parts) (64 - __builtin_clzll((parts) | 1)) /* of a pairwise tree */
#define UNROLL _Pragma("GCC unroll 4")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { STRIP = 1024, STAGE = 64, RUN = 4, ROWS = 64 };
extern void elemc_exp_each(void *to, const void *x, int64_t n);
extern void elemc_pull_sum_f64(const double *tree, int64_t count, double *total, int64_t width); /* the total of what was pushed */
extern void elemc_push_sum_f64(double *tree, int64_t count, double *part, int64_t width); /* onto a pairwise tree, which takes `part` */

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

/* the greatest of a state and two more, for which one comparison finds a NaN in either */
static inline double maximum_of_f64(double state, double a, double b)
{
  const double next = b > a ? b : a, best = next > state ? next : state;
  return __builtin_isunordered(a, b) ? __builtin_nan("") : best;
}

int kernel_softmax_columns(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n0 = n[0], n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = 8, x_s1 = s[0]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8, z_s1 = s[1];
  double *const buffer0 = (double *)w[0]; /* buffers */

  if (phase == 0) {
    for (int64_t b0 = begin; b0 < end; b0 += STRIP) {
      const int w0 = end - b0 < STRIP ? (int)(end - b0) : STRIP;
      /* max0: max along i1 */
      _Alignas(64) double max0[STRIP];
      for (int l = 0; l < w0; l++)
        max0[l] = -__builtin_inf();
      for (int64_t k = 0; k < n1 / RUN; k++) {
        INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++) {
          double max0_l = max0[l];
          UNROLL for (int64_t r = 0, i1 = k * RUN; r < RUN; r += 2, i1 += 2)
            max0_l = maximum_of_f64(max0_l, AT(const double, x_p, i0 * x_s0 + i1 * x_s1), AT(const double, x_p, i0 * x_s0 + (i1 + 1) * x_s1));
          max0[l] = max0_l;
        }
      }
      for (int64_t i1 = n1 / RUN * RUN; i1 < n1; i1++) {
        INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
          max0[l] = maximum_f64(max0[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
      }
      /* sum0: sum along i1 */
      _Alignas(64) double sum0[STRIP], sum0_tree[LEVELS(n1 / ROWS + 1) * w0];
      int64_t sum0_count = 0;
      for (int64_t b1 = 0; b1 < n1; b1 += ROWS, sum0_count++) {
        const int64_t e1 = b1 + ROWS < n1 ? b1 + ROWS : n1;
        for (int l = 0; l < w0; l++)
          sum0[l] = 0.0;
        for (int64_t i1 = b1; i1 < e1; i1++) {
          for (int64_t at = 0, to; at < w0; at = to) {
            to = w0 - at < STAGE ? w0 : at + STAGE;
            _Alignas(64) double exp_block[STAGE];
            INDEPENDENT for (int64_t l = at, i0 = b0 + at; l < to; l++, i0++)
              exp_block[l - at] = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) - max0[l];
            elemc_exp_each(exp_block, exp_block, to - at);
            INDEPENDENT for (int64_t l = at, i0 = b0 + at; l < to; l++, i0++) {
              const double t0 = exp_block[l - at];
              AT(double, z_p, i0 * z_s0 + i1 * z_s1) = t0;
              sum0[l] = sum0[l] + t0;
            }
          }
        }
        if (n1 > ROWS) elemc_push_sum_f64(sum0_tree, sum0_count, sum0, w0);
      }
      if (n1 > ROWS || !n1) elemc_pull_sum_f64(sum0_tree, sum0_count, sum0, w0);
      INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
        buffer0[i0] = sum0[l];
    }
  }

  if (phase == 1) {
    for (int64_t i1 = begin; i1 < end; i1++) {
      INDEPENDENT for (int64_t i0 = 0; i0 < n0; i0++) {
        const double t0 = AT(double, z_p, i0 * z_s0 + i1 * z_s1);
        AT(double, z_p, i0 * z_s0 + i1 * z_s1) = t0 / buffer0[i0];
      }
    }
  }
  return 0;
}
