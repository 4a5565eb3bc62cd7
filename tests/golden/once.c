/*
 * elemc kernel once
 *
 * z = x * exp(y)
 *   z: broadcast, order f
 *
 * in y[i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 * in x[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")
enum { PIECE = 256 };
extern void elemc_exp_each(void *to, const void *x, int64_t n);

int kernel_once(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const y_p = p[0]; const int64_t y_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[0], z_s1 = 8;
  const char *const x_p = p[2]; const int64_t x_s0 = s[1], x_s1 = 8;
  double *const buffer0 = (double *)w[0]; /* buffers */

  if (phase == 0) {
    for (int64_t b1 = begin; b1 < end; b1 += PIECE) {
      const int w1 = end - b1 < PIECE ? (int)(end - b1) : PIECE;
      elemc_exp_each(&buffer0[b1], y_p + b1 * y_s1, w1);
    }
  }

  if (phase == 1) {
    for (int64_t i0 = begin; i0 < end; i0++) {
      INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++)
        AT(double, z_p, i0 * z_s0 + i1 * z_s1) = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) * buffer0[i1];
    }
  }
  return 0;
}
