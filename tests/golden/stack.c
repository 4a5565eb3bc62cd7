/*
 * elemc kernel stack
 *
 * z = where(arange(2)[:, None] == 0, (y * 2)[None, :], w_in[None, :])
 *   z: broadcast, order f
 *
 * out z[i0, i1]: float64, contiguous
 * in y[i1]: float64, contiguous
 * in w_in[i1]: float64, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
typedef uint8_t bool_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \
  ((n) < 128 || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))
#define INDEPENDENT _Pragma("GCC ivdep")

int kernel_stack(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  char *const z_p = p[0]; const int64_t z_s0 = s[0], z_s1 = 8; /* operands, strides in bytes */
  const char *const y_p = p[1]; const int64_t y_s1 = 8;
  const char *const w_in_p = p[2]; const int64_t w_in_s1 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    const bool_t t0 = i0 == 0;
    if (t0) {
      for (int64_t b1 = 0, e1 = TO_LINE(z_p + i0 * z_s0, 8, n1); b1 < n1; b1 = e1, e1 = n1)
        INDEPENDENT for (int64_t i1 = b1; i1 < e1; i1++)
          AT(double, z_p, i0 * z_s0 + i1 * z_s1) = AT(const double, y_p, i1 * y_s1) * 2.0;
    }
    const bool_t t1 = !t0;
    if (t1) {
      for (int64_t b1 = 0, e1 = TO_LINE(z_p + i0 * z_s0, 8, n1); b1 < n1; b1 = e1, e1 = n1)
        INDEPENDENT for (int64_t i1 = b1; i1 < e1; i1++)
          AT(double, z_p, i0 * z_s0 + i1 * z_s1) = AT(const double, w_in_p, i1 * w_in_s1);
    }
  }
  return 0;
}
