/*
 * elemc kernel broadcast_streamed
 *
 * z = x * y + 1
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * in y[i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define WHOLE_LINES(to, size, n) ((n) - ((int64_t)(to) & 63) / (size) % (n)) /* n elements, or until a line ends */
extern void elemc_stream(void *rest, char *to, const void *block, int64_t bytes), elemc_end_stream(void *rest);
#define IN_TURNS(from) ((from) + 32768 - ((int64_t)(from) & 32767) /* 32 KiB on, of 8 pages */ \
  + (((int64_t)(from) >> 6 & 7) << 12) + (((int64_t)(from) >> 9 & 63) << 6))
#define FETCH_FROM(way, from, on) /* 0: not; 1, 2: to that cache, `on` bytes ahead; 8: in turns */ \
  ((way) ? __builtin_prefetch((way) == 8 ? IN_TURNS(from) : (from) + (on), 0, (way) == 1 ? 3 : 2) : (void)0)
#define FETCH_MAP(from) FETCH_FROM(ASK_MAP, from, 8192) /* for what outgrows the caches */
#define FETCH_LINE(fetch, from, bytes) for (int64_t line = 0; line < (bytes); line += 64) fetch((from) + line)
#define INDEPENDENT _Pragma("GCC ivdep")
enum { LINE = 128, REST = 128 };

int kernel_broadcast_streamed(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  const char *const y_p = p[1]; const int64_t y_s1 = 8;
  char *const z_p = p[2]; const int64_t z_s0 = s[1], z_s1 = 8;

  _Alignas(64) char z_rest[REST] = {0}; _Alignas(64) double z_block[LINE]; /* is large: it goes to memory in blocks */
  for (int64_t i0 = begin; i0 < end; i0++) {
    for (int64_t b1 = 0, e1; b1 < n1; b1 = e1) {
      e1 = n1 - b1 <= LINE ? n1 : b1 + WHOLE_LINES(z_p + i0 * z_s0 + b1 * z_s1, 8, LINE);
      FETCH_LINE(FETCH_MAP, x_p + i0 * x_s0 + b1 * x_s1, LINE * 8);
      double *const z_line = THROUGH ? (void *)(z_p + i0 * z_s0 + b1 * z_s1) : z_block; /* in place, or past the caches */
      INDEPENDENT for (int64_t i1 = b1; i1 < e1; i1++)
        z_line[i1 - b1] = AT(const double, x_p, i0 * x_s0 + i1 * x_s1) * AT(const double, y_p, i1 * y_s1) + 1.0;
      elemc_stream(z_rest, z_p + i0 * z_s0 + b1 * z_s1, z_line, (e1 - b1) * 8);
    }
  }
  elemc_end_stream(z_rest);
  return 0;
}
