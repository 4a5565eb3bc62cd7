/*
 * elemc kernel recurrence
 *
 * z = scan(horner, x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define INDEPENDENT _Pragma("GCC ivdep")
enum { ABREAST = 16 };
extern void elemc_turn_64(void *to, int64_t to_step, const void *from, int64_t step, int64_t rows, int64_t columns); /* columns of lines that are a step apart */

int kernel_recurrence(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[1];
  double *const x_rows0 = (double *)w[0]; /* buffers */
  double *const z_rows0 = (double *)w[1];

  /* ABREAST rows side by side */
  for (int64_t b0 = begin; b0 < end; b0 += ABREAST) {
    const int w0 = end - b0 < ABREAST ? (int)(end - b0) : ABREAST;
    elemc_turn_64(x_rows0, ABREAST * 8, x_p + b0 * x_s0, x_s0, n1, w0);
    _Alignas(64) double horner0[ABREAST];
    INDEPENDENT for (int l = 0; l < w0; l++)
      horner0[l] = 0.0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      INDEPENDENT for (int l = 0; l < w0; l++) {
        horner0[l] = 2.0 * horner0[l] + x_rows0[i1 * ABREAST + l];
        const double t0 = horner0[l];
        z_rows0[i1 * ABREAST + l] = t0;
      }
    }
    elemc_turn_64(z_p + b0 * z_s0, z_s0, z_rows0, ABREAST * 8, w0, n1);
  }
  return 0;
}
