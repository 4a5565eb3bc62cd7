/*
 * elemc kernel normalise_all
 *
 * z = y / sum(y)
 *   z: broadcast, order f
 *
 * in y[i0]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \
  ((n) < 128 || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { LANES = 16, BLOCK = 4096, TREE = 40 };

int kernel_normalise_all(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n0 = n[0], n1 = n[1]; /* extents */
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;
  double *const buffer0 = (double *)w[0]; /* buffers */
  double *const parts0 = (double *)w[1];

  if (phase == 0) {
    /* chunks of i0 */
    for (int64_t i1 = begin; i1 < end; i1++) {
      const int64_t begin0 = i1 * BLOCK;
      const int64_t end0 = n0 - begin0 < BLOCK ? n0 : begin0 + BLOCK;
      /* sum0: sum along i0, in lanes */
      double sum0 = 0.0;
      if (end0 - begin0 >= LANES) {
        double sum0_lane[LANES] = {0};
        for (int64_t k = begin0 / LANES; k < end0 / LANES; k++) UNROLL for (int64_t l = 0, i0 = k * LANES; l < LANES; l++, i0++)
          sum0_lane[l] = sum0_lane[l] + AT(const double, y_p, i0 * y_s0);
        UNROLL for (int64_t l = 0, i0 = end0 - LANES; l < LANES; l++, i0++) {
          const double sum0_next = sum0_lane[l] + AT(const double, y_p, i0 * y_s0);
          sum0_lane[l] = l < LANES - end0 % LANES ? sum0_lane[l] : sum0_next;
        }
        UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
          sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
        sum0 = sum0_lane[0];
      }
      for (int64_t i0 = end0 - (end0 - begin0 < LANES ? end0 % LANES : 0); i0 < end0; i0++)
        sum0 = sum0 + AT(const double, y_p, i0 * y_s0);
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
    buffer0[0] = sum1;
  }

  if (phase == 2) {
    for (int64_t b0 = begin, e0 = begin + TO_LINE(z_p + begin * z_s0, 8, end - begin); b0 < end; b0 = e0, e0 = end)
      INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++)
        AT(double, z_p, i0 * z_s0) = AT(const double, y_p, i0 * y_s0) / buffer0[0];
  }
  return 0;
}
