/*
 * elemc kernel broadcast_c
 *
 * z = x * y + 1
 *   z: broadcast, order c
 *
 * in y[i0]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 * in x[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_broadcast_c(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[0], z_s1 = 8;
  const char *const x_p = p[2]; const int64_t x_s0 = s[1], x_s1 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    const double y_v = AT(const double, y_p, i0 * y_s0);
    INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++)
      AT(double, z_p, i0 * z_s0 + i1 * z_s1) = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) * y_v + 1.0;
  }
  return 0;
}
