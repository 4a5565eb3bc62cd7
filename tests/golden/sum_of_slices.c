/*
 * elemc kernel sum_of_slices
 *
 * z = sum(x[:, :, :, 1:] * x[:, :, :, :-1], axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1, i2, i3]: float64, contiguous
 * in x_2[i0, i1, i2, i3]: float64, contiguous
 * out z[i0, i2, i3]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_sum_of_slices(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1], n2 = n[2], n3 = n[3]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = s[1], x_s2 = s[2], x_s3 = 8; /* operands, strides in bytes */
  const char *const x_2_p = p[1]; const int64_t x_2_s0 = s[3], x_2_s1 = s[4], x_2_s2 = s[5], x_2_s3 = 8;
  char *const z_p = p[2]; const int64_t z_s0 = s[6], z_s3 = 8;
  double *const buffer0 = (double *)w[0]; /* buffers */

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* sum0: sum along i1 */
    double *const sum0 = buffer0;
    for (int64_t l = 0; l < n2 * n3; l++)
      sum0[l] = 0.0;
    /* i1 by twos, then what is left */
    for (int64_t i1 = 0; i1 < n1 - 1; i1 += 2) {
      for (int64_t i2 = 0; i2 < n2; i2++) {
        INDEPENDENT for (int64_t i3 = 0; i3 < n3; i3++) {
          const double sum0_between = sum0[i2 * n3 + i3] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1 + i2 * x_s2 + i3 * x_s3) * AT(const double, x_2_p, i0 * x_2_s0 + i1 * x_2_s1 + i2 * x_2_s2 + i3 * x_2_s3);
          sum0[i2 * n3 + i3] = sum0_between + AT(const double, x_p, i0 * x_s0 + (i1 + 1) * x_s1 + i2 * x_s2 + i3 * x_s3) * AT(const double, x_2_p, i0 * x_2_s0 + (i1 + 1) * x_2_s1 + i2 * x_2_s2 + i3 * x_2_s3);
        }
      }
    }
    for (int64_t i1 = n1 - n1 % 2; i1 < n1; i1++) {
      for (int64_t i2 = 0; i2 < n2; i2++) {
        INDEPENDENT for (int64_t i3 = 0; i3 < n3; i3++)
          sum0[i2 * n3 + i3] = sum0[i2 * n3 + i3] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1 + i2 * x_s2 + i3 * x_s3) * AT(const double, x_2_p, i0 * x_2_s0 + i1 * x_2_s1 + i2 * x_2_s2 + i3 * x_2_s3);
      }
    }
    INDEPENDENT for (int64_t i3 = 0; i3 < n2 * n3; i3++)
      AT(double, z_p, i0 * z_s0 + i3 * z_s3) = buffer0[i3];
  }
  return 0;
}
