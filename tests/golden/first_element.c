/*
 * elemc kernel first_element
 *
 * z = first(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
typedef uint8_t bool_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))

int kernel_first_element(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    double first0;
    bool_t first0_started;
    first0 = 0.0;
    first0_started = 0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      if (first0_started) {
        first0 = first0;
      } else {
        first0 = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        first0_started = 1;
      }
    }
    AT(double, z_p, i0 * z_s0) = first0;
  }
  return 0;
}
