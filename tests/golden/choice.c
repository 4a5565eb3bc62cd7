/*
 * elemc kernel choice
 *
 * z = where(x[:, :1] > 0, scan(sum, x, axis=1), 2 * x)
 *   z: broadcast, order f
 *
 * in x[i0]: float64, strided
 * in x_2[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
typedef uint8_t bool_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_choice(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0]; /* operands, strides in bytes */
  const char *const x_2_p = p[1]; const int64_t x_2_s0 = s[1], x_2_s1 = 8;
  char *const z_p = p[2]; const int64_t z_s0 = s[2], z_s1 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    const double x_v = AT(const double, x_p, i0 * x_s0);
    const bool_t t0 = x_v > 0.0;
    if (t0) {
      double sum0;
      sum0 = 0.0;
      for (int64_t i1 = 0; i1 < n1; i1++) {
        sum0 = sum0 + AT(const double, x_2_p, i0 * x_2_s0 + i1 * x_2_s1);
        const double t1 = sum0;
        AT(double, z_p, i0 * z_s0 + i1 * z_s1) = t1;
      }
    } else {
      INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++)
        AT(double, z_p, i0 * z_s0 + i1 * z_s1) = 2.0 * AT(const double, x_2_p, i0 * x_2_s0 + i1 * x_2_s1);
    }
  }
  return 0;
}
