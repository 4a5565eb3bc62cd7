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
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { LANES = 16, HALF_PIECE = 128, BLOCK = 4096, TREE = 40 };
extern double elemc_exp(double) SIMD;
extern void elemc_log_each(void *to, const void *x, int64_t n);

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_logsumexp(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;
  double *const buffer0 = (double *)w[0]; /* buffers */
  double *const buffer1 = (double *)w[1];

  if (phase == 0) {
    for (int64_t i0 = begin; i0 < end; i0++) {
      /* max0: max along i1, in lanes */
      double max0 = -__builtin_inf();
      if (n1 >= LANES) {
        double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
        for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
          max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
        UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++)
          max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
        UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
          max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
        max0 = max0_lane[0];
      }
      for (int64_t i1 = n1 - (n1 < LANES ? n1 % LANES : 0); i1 < n1; i1++)
        max0 = maximum_f64(max0, AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
      buffer0[i0] = max0;
      /* sum0: sum along i1, in lanes */
      double sum0 = 0.0, sum0_tree[TREE]; int64_t sum0_top = 0;
      for (int64_t b1 = 0; b1 < n1; b1 += BLOCK) {
        const int64_t e1 = b1 + BLOCK < n1 ? b1 + BLOCK : n1;
        sum0 = 0.0;
        if (e1 - b1 >= LANES) {
          double sum0_lane[LANES] = {0};
          for (int64_t k = b1 / LANES; k < e1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
            const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
            sum0_lane[l] = sum0_lane[l] + elemc_exp(x_v == max0 ? 0 : x_v - max0);
          }
          if (e1 % LANES) UNROLL for (int64_t l = 0, i1 = e1 - LANES; l < LANES; l++, i1++) {
            const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
            const double sum0_next = sum0_lane[l] + elemc_exp(x_v == max0 ? 0 : x_v - max0);
            sum0_lane[l] = l < LANES - e1 % LANES ? sum0_lane[l] : sum0_next;
          }
          UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
            sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
          sum0 = sum0_lane[0];
        }
        for (int64_t i1 = e1 - (e1 - b1 < LANES ? e1 % LANES : 0); i1 < e1; i1++) {
          const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
          sum0 = sum0 + elemc_exp(x_v == max0 ? 0 : x_v - max0);
        }
        for (int64_t c = b1 / BLOCK; c & 1; c >>= 1, sum0_top--) sum0 = sum0_tree[sum0_top - 1] + sum0;
        sum0_tree[sum0_top++] = sum0;
      }
      while (--sum0_top > 0) sum0 = sum0_tree[sum0_top - 1] + sum0;
      buffer1[i0] = sum0;
    }
  }

  if (phase == 1) {
    for (int64_t b0 = begin; b0 < end; b0 += HALF_PIECE) {
      const int w0 = end - b0 < HALF_PIECE ? (int)(end - b0) : HALF_PIECE;
      _Alignas(64) double log_block[HALF_PIECE];
      elemc_log_each(log_block, &buffer1[b0], w0);
      INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
        AT(double, z_p, i0 * z_s0) = log_block[l] + buffer0[i0];
    }
  }
  return 0;
}
