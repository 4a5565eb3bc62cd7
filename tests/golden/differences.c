/*
 * elemc kernel differences
 *
 * z = y[1:] - y[:-1]
 *   z: broadcast, order f
 *
 * out z[i0]: float64, contiguous
 * in y[i0]: float64, contiguous
 * in y_2[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \
  ((n) < 128 || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_differences(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  char *const z_p = p[0]; const int64_t z_s0 = 8; /* operands, strides in bytes */
  const char *const y_p = p[1]; const int64_t y_s0 = 8;
  const char *const y_2_p = p[2]; const int64_t y_2_s0 = 8;

  for (int64_t b0 = begin, e0 = begin + TO_LINE(z_p + begin * z_s0, 8, end - begin); b0 < end; b0 = e0, e0 = end)
    INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++)
      AT(double, z_p, i0 * z_s0) = AT(const double, y_p, i0 * y_s0) - AT(const double, y_2_p, i0 * y_2_s0);
  return 0;
}
