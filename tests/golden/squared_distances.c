/*
 * elemc kernel squared_distances
 *
 * z = sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)
 *   z: broadcast, order f
 *
 * in y[i0, i1]: float64, contiguous
 * in x[i1, i2]: float64, contiguous
 * out z[i0, i2]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define UNROLL _Pragma("GCC unroll 4")
#define UNROLL_8 _Pragma("GCC unroll 8")
#define INDEPENDENT _Pragma("GCC ivdep")
enum { SIDED = 64 };
extern void elemc_turn_64(void *to, int64_t to_step, const void *from, int64_t step, int64_t rows, int64_t columns); /* columns of lines that are a step apart */

int kernel_squared_distances(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = 12, n2 = n[2]; /* extents */
  const char *const y_p = p[0]; const int64_t y_s0 = s[0]; /* operands, strides in bytes */
  const char *const x_p = p[1]; const int64_t x_s1 = 8, x_s2 = s[1];
  char *const z_p = p[2]; const int64_t z_s0 = 8, z_s2 = s[2];
  double *const y_rows0 = (double *)w[0]; /* buffers */

  for (int64_t b0 = begin; b0 < end; b0 += SIDED) {
    const int w0 = end - b0 < SIDED ? (int)(end - b0) : SIDED;
    elemc_turn_64(y_rows0, SIDED * 8, y_p + b0 * y_s0, y_s0, n1, w0);
    /* i2 by sixes, which fold the same rows; the last may be folded again */
    for (int64_t b2 = 0; b2 < n2; b2 += 6) {
      /* sum0: sum along i1 */
      _Alignas(64) double sum0[6][SIDED];
      for (int l = 0; l < w0; l++)
        UNROLL_8 for (int m = 0; m < 6; m++)
          sum0[m][l] = 0.0;
      for (int64_t k = 0; k < n1 / 4; k++) {
        INDEPENDENT for (int l = 0; l < w0; l++) {
          double sum0_l[6];
          UNROLL_8 for (int m = 0; m < 6; m++)
            sum0_l[m] = sum0[m][l];
          UNROLL for (int64_t r = 0, i1 = k * 4; r < 4; r++, i1++)
            UNROLL_8 for (int m = 0; m < 6; m++) {
              const int64_t i2 = b2 + m < n2 ? b2 + m : n2 - 1;
              const double x_v = AT(const double, x_p, i1 * x_s1 + i2 * x_s2);
              const double t0 = x_v - y_rows0[i1 * SIDED + l];
              sum0_l[m] = sum0_l[m] + t0 * t0;
            }
          UNROLL_8 for (int m = 0; m < 6; m++)
            sum0[m][l] = sum0_l[m];
        }
      }
      INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++)
        UNROLL_8 for (int m = 0; m < 6; m++) {
          const int64_t i2 = b2 + m < n2 ? b2 + m : n2 - 1;
          AT(double, z_p, i0 * z_s0 + i2 * z_s2) = sum0[m][l];
        }
    }
  }
  return 0;
}
