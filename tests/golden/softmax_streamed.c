/*
 * elemc kernel softmax_streamed
 *
 * z = exp(x - max(x, axis=1)[:, None]) / sum(exp(x - max(x, axis=1)[:, None]), axis=1)[:, None]
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define WHOLE_LINES(to, size, n) ((n) - ((int64_t)(to) & 63) / (size) % (n)) /* n elements, or until a line ends */
extern void elemc_stream(void *rest, char *to, const void *block, int64_t bytes), elemc_end_stream(void *rest);
#define FETCH_ROW(from) __builtin_prefetch(from, 0, 2) /* to the second cache */
#define FETCH_LINE(fetch, from, bytes) for (int64_t line = 0; line < (bytes); line += 64) fetch((from) + line)
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { LANES = 16, STAGE = 64, LINE = 128, REST = 128, AHEAD = 8192 };
extern void elemc_exp_each(void *to, const void *x, int64_t n);
extern void elemc_quotients(void *to, const void *from, int64_t n, double y, double near, int divides);

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_softmax_streamed(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  if (n1 < 16) __builtin_unreachable(); /* callers see to it */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8, x_ahead = n1 * 8 < 16 * AHEAD ? (1 + AHEAD / (n1 * 8 + 1)) * x_s0 : AHEAD; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[1], z_s1 = 8;
  double *const buffer0 = (double *)w[0]; /* buffers */

  _Alignas(64) char z_rest[REST] = {0}; _Alignas(64) double z_block[LINE]; /* is large: it goes to memory in blocks */
  for (int64_t i0 = begin; i0 < end; i0++) {
    /* max0: max along i1, in lanes */
    double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++)
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
    const double max0 = max0_lane[0];
    for (int64_t b1 = 0; b1 < n1; b1 += STAGE) {
      const int w1 = n1 - b1 < STAGE ? (int)(n1 - b1) : STAGE;
      FETCH_LINE(FETCH_ROW, x_p + i0 * x_s0 + b1 * x_s1 + x_ahead, w1 * 8);
      INDEPENDENT for (int64_t l = 0, i1 = b1; l < w1; l++, i1++)
        buffer0[i1] = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) - max0;
      elemc_exp_each(&buffer0[b1], &buffer0[b1], w1);
    }
    /* sum0: sum along i1, in lanes */
    double sum0_lane[LANES] = {0};
    for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
      sum0_lane[l] = sum0_lane[l] + buffer0[i1];
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      const double sum0_next = sum0_lane[l] + buffer0[i1];
      sum0_lane[l] = l < LANES - n1 % LANES ? sum0_lane[l] : sum0_next;
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
    const double sum0 = sum0_lane[0];
    const double t0 = 1 / sum0;
    for (int64_t b1 = 0, w1; b1 < n1; b1 += w1) {
      w1 = n1 - b1 <= LINE ? n1 - b1 : WHOLE_LINES(z_p + i0 * z_s0 + b1 * z_s1, 8, LINE);
      double *const z_line = THROUGH ? (void *)(z_p + i0 * z_s0 + b1 * z_s1) : z_block; /* in place, or past the caches */
      elemc_quotients(z_line, &buffer0[b1], w1, sum0, t0, DIVIDES);
      elemc_stream(z_rest, z_p + i0 * z_s0 + b1 * z_s1, z_line, w1 * 8);
    }
  }
  elemc_end_stream(z_rest);
  return 0;
}
