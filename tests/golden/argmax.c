/*
 * elemc kernel argmax
 *
 * z = argmax(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: int64, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
typedef uint8_t bool_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))

int kernel_argmax(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, const int64_t *tune, char *const *w)
{
  const int64_t n0 = n[0], n1 = n[1]; /* extents */
  /* operands: pointers, and strides in bytes */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8;
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    double argmax0_0;
    int64_t argmax0_1;
    argmax0_0 = -__builtin_inf();
    argmax0_1 = 0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
      const bool_t t0 = x_v > argmax0_0 | x_v != x_v & argmax0_0 == argmax0_0;
      const double t1 = t0 ? x_v : argmax0_0;
      const int64_t t2 = t0 ? i1 : argmax0_1;
      argmax0_0 = t1;
      argmax0_1 = t2;
    }
    AT(int64_t, z_p, i0 * z_s0) = argmax0_1;
  }
  return 0;
}
