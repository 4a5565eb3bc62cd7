/*
 * elemc kernel poly_streamed
 *
 * z = y * w_in + (y - w_in) / (y * y + w_in * w_in + 1)
 *   z: broadcast, order f
 *
 * in y[i0]: float64, contiguous
 * in w_in[i0]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define WHOLE_LINES(to, size, n) ((n) - ((int64_t)(to) & 63) / (size) % (n)) /* n elements, or until a line ends */
extern void elemc_stream(void *rest, char *to, const void *block, int64_t bytes), elemc_end_stream(void *rest);
#define INDEPENDENT _Pragma("GCC ivdep")
enum { LINE = 128, REST = 128 };

int kernel_poly_streamed(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const y_p = p[0]; const int64_t y_s0 = 8; /* operands, strides in bytes */
  const char *const w_in_p = p[1]; const int64_t w_in_s0 = 8;
  char *const z_p = p[2]; const int64_t z_s0 = 8;

  _Alignas(64) char z_rest[REST] = {0}; _Alignas(64) double z_block[LINE]; /* is large: it goes to memory in blocks */
  for (int64_t b0 = begin, e0; b0 < end; b0 = e0) {
    e0 = end - b0 <= LINE ? end : b0 + WHOLE_LINES(z_p + b0 * z_s0, 8, LINE);
    double *const z_line = THROUGH ? (void *)(z_p + b0 * z_s0) : z_block; /* in place, or past the caches */
    INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++) {
      const double y_v = AT(const double, y_p, i0 * y_s0);
      const double w_in_v = AT(const double, w_in_p, i0 * w_in_s0);
      const double t0 = (y_v - w_in_v) / (y_v * y_v + w_in_v * w_in_v + 1.0);
      z_line[i0 - b0] = y_v * w_in_v + t0;
    }
    elemc_stream(z_rest, z_p + b0 * z_s0, z_line, (e0 - b0) * 8);
  }
  elemc_end_stream(z_rest);
  return 0;
}
