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
enum { HALF_PIECE = 128 };
extern void elemc_sin_each(void *to, const void *x, int64_t n);

int kernel_sinc_where(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t b0 = begin; b0 < end; b0 += HALF_PIECE) {
    const int w0 = end - b0 < HALF_PIECE ? (int)(end - b0) : HALF_PIECE;
    _Alignas(64) double sin_block[HALF_PIECE];
    elemc_sin_each(sin_block, y_p + b0 * y_s0, w0);
    INDEPENDENT for (int64_t l = 0, i0 = b0; l < w0; l++, i0++) {
      const double y_v = AT(const double, y_p, i0 * y_s0);
      const double t0 = sin_block[l];
      AT(double, z_p, i0 * z_s0) = y_v > 0.0 ? t0 : 0.0;
    }
  }
  return 0;
}
