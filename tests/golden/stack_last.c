/*
 * elemc kernel stack_last
 *
 * z = where(arange(2)[None, :] == 0, (y * 2)[:, None], w_in[:, None])
 *   z: broadcast, order f
 *
 * in y[i0]: float64, contiguous
 * in w_in[i0]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_stack_last(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = 2; /* extents */
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  const char *const w_in_p = p[1]; const int64_t w_in_s0 = 8;
  char *const z_p = p[2]; const int64_t z_s0 = 16, z_s1 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    const double y_v = AT(const double, y_p, i0 * y_s0);
    const double t0 = y_v * 2.0;
    const double w_in_v = AT(const double, w_in_p, i0 * w_in_s0);
    INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++)
      AT(double, z_p, i0 * z_s0 + i1 * z_s1) = i1 == 0 ? t0 : w_in_v;
  }
  return 0;
}
