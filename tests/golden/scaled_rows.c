/*
 * elemc kernel scaled_rows
 *
 * z = x * gain
 *   z: broadcast, order f
 *
 * in gain[i1]: float32, contiguous
 * out z[i0, i1]: float32, contiguous
 * in x[i0, i1]: float32, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define ROWS_OF(n, all) /* rows of n elements that go as one: some of all, within copies */ \
  (8 * ((all) / 64 < 128 / (n) ? (all) / 64 + 1 : 128 / (n)))
#define INDEPENDENT _Pragma("GCC ivdep")

/* a row over and over, twice as much at each turn */
static inline void repeat(void *rows, int64_t row, int64_t count)
{
  for (int64_t k = row; k < row * count; k += k)
    __builtin_memcpy((char *)rows + k, rows, k < row * count - k ? k : row * count - k);
}

int kernel_scaled_rows(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n0 = n[0], n1 = 20; /* extents */
  const char *const gain_p = p[0]; const int64_t gain_s1 = 4; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[0], z_s1 = 4;
  const char *const x_p = p[2]; const int64_t x_s0 = s[1], x_s1 = 4;

  _Alignas(64) float gain_rows[1024];
  INDEPENDENT for (int64_t i1 = 0; i1 < n1; i1++)
    gain_rows[i1] = AT(const float, gain_p, i1 * gain_s1);
  repeat(gain_rows, n1 * 4, ROWS_OF(n1, n0));
  for (int64_t b0 = begin; b0 < end; b0 += ROWS_OF(n1, n0)) {
    const int w0 = end - b0 < ROWS_OF(n1, n0) ? (int)(end - b0) : ROWS_OF(n1, n0);
    INDEPENDENT for (int64_t i1 = 0; i1 < w0 * n1; i1++)
      AT(float, z_p, b0 * z_s0 + i1 * z_s1) = AT(const float, x_p, b0 * x_s0 + i1 * x_s1) * gain_rows[i1];
  }
  return 0;
}
