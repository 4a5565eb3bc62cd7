/*
 * elemc kernel folded_functions
 *
 * z = sum(log1p(exp(y)) - y * w_in)
 *   z: broadcast, order f
 *
 * in y[i0]: float64, contiguous
 * in w_in[i0]: float64, contiguous
 * out z[]: float64
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16, HALF_PIECE = 128, BLOCK = 4096, TREE = 40 };
extern void elemc_exp_each(void *to, const void *x, int64_t n);
extern void elemc_log1p_each(void *to, const void *x, int64_t n);

int kernel_folded_functions(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n0 = n[0], n1 = n[1]; /* extents */
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  const char *const w_in_p = p[1]; const int64_t w_in_s0 = 8;
  char *const z_p = p[2];
  double *const parts0 = (double *)w[0]; /* buffers */

  if (phase == 0) {
    /* chunks of i0 */
    for (int64_t i1 = begin; i1 < end; i1++) {
      const int64_t begin0 = i1 * BLOCK;
      const int64_t end0 = n0 - begin0 < BLOCK ? n0 : begin0 + BLOCK;
      _Alignas(64) double row0[BLOCK];
      for (int64_t b0 = begin0; b0 < end0; b0 += HALF_PIECE) {
        const int w0 = end0 - b0 < HALF_PIECE ? (int)(end0 - b0) : HALF_PIECE;
        _Alignas(64) double exp_block[HALF_PIECE];
        elemc_exp_each(exp_block, y_p + b0 * y_s0, w0);
        elemc_log1p_each(&row0[b0 - begin0], exp_block, w0);
      }
      /* sum0: sum along i0, in lanes */
      double sum0 = 0.0;
      if (end0 - begin0 >= LANES) {
        double sum0_lane[LANES] = {0};
        for (int64_t k = begin0 / LANES; k < end0 / LANES; k++) UNROLL for (int64_t l = 0, i0 = k * LANES; l < LANES; l++, i0++) {
          const double t0 = row0[i0 - begin0] - AT(const double, y_p, i0 * y_s0) * AT(const double, w_in_p, i0 * w_in_s0);
          sum0_lane[l] = sum0_lane[l] + t0;
        }
        UNROLL for (int64_t l = 0, i0 = end0 - LANES; l < LANES; l++, i0++) {
          const double t0 = row0[i0 - begin0] - AT(const double, y_p, i0 * y_s0) * AT(const double, w_in_p, i0 * w_in_s0);
          const double sum0_next = sum0_lane[l] + t0;
          sum0_lane[l] = l < LANES - end0 % LANES ? sum0_lane[l] : sum0_next;
        }
        UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
          sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
        sum0 = sum0_lane[0];
      }
      for (int64_t i0 = end0 - (end0 - begin0 < LANES ? end0 % LANES : 0); i0 < end0; i0++) {
        const double t0 = row0[i0 - begin0] - AT(const double, y_p, i0 * y_s0) * AT(const double, w_in_p, i0 * w_in_s0);
        sum0 = sum0 + t0;
      }
      parts0[i1] = sum0;
    }
  }

  if (phase == 1) {
    /* sum1: sum along i1 */
    double sum1 = 0.0, sum1_tree[TREE];
    int64_t sum1_top = 0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      const double part0 = parts0[i1];
      sum1 = part0;
      for (int64_t c = i1; c & 1; c >>= 1, sum1_top--) sum1 = sum1_tree[sum1_top - 1] + sum1;
      sum1_tree[sum1_top++] = sum1;
    }
    while (--sum1_top > 0) sum1 = sum1_tree[sum1_top - 1] + sum1;
    AT(double, z_p, 0) = sum1;
  }
  return 0;
}
