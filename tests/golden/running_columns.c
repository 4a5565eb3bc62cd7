/*
 * elemc kernel running_columns
 *
 * z = scan(sum, x, axis=0)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define INDEPENDENT _Pragma("GCC ivdep")
enum { STRIP = 1024 };

int kernel_running_columns(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = 8, x_s1 = s[0]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8, z_s1 = s[1];

  for (int64_t b0 = begin; b0 < end; b0 += STRIP) {
    const int w0 = end - b0 < STRIP ? (int)(end - b0) : STRIP;
    _Alignas(64) double sum0[STRIP];
    INDEPENDENT for (int l = 0; l < w0; l++)
      sum0[l] = 0.0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++) {
        sum0[l] = sum0[l] + AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
        const double t0 = sum0[l];
        AT(double, z_p, i0 * z_s0 + i1 * z_s1) = t0;
      }
    }
  }
  return 0;
}
