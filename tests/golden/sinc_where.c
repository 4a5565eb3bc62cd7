/*
 * elemc kernel sinc_where
 *
 * z = where(y > 0, sin(y), 0.0)
 *   z: broadcast, order f
 *
 * in y[i0]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")
extern double elemc_sin(double) SIMD;

int kernel_sinc_where(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  INDEPENDENT for (int64_t i0 = begin; i0 < end; i0++) {
    const double y_v = AT(const double, y_p, i0 * y_s0);
    const double t0 = elemc_sin(y_v);
    AT(double, z_p, i0 * z_s0) = y_v > 0.0 ? t0 : 0.0;
  }
  return 0;
}
