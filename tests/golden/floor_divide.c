/*
 * elemc kernel floor_divide
 *
 * z0 = x // 7
 *   z0: broadcast, order f
 * z1 = x % -3
 *   z1: broadcast, order f
 *
 * in x[i0]: int32, contiguous
 * out z0[i0]: int32, contiguous
 * out z1[i0]: int32, contiguous
 */
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \
  ((n) < 128 || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))
#define INDEPENDENT _Pragma("GCC ivdep")

/* the quotient rounded down; 0 if b is 0.  Doubles are exact, and have vector divisions. */
static inline int32_t floor_divide_i32(int32_t a, int32_t b)
{
  const int32_t by = b == 0 || b == -1 ? 1 : b;
  const int32_t quotient = __builtin_constant_p(b) ? a / by : (int32_t)((double)a / (double)by);
  const int32_t rest = a - quotient * by, down = quotient - (rest != 0 && (rest < 0) != (by < 0));
  return b == 0 ? 0 : b == -1 ? -a : down;
}

/* the remainder with the sign of b; 0 if b is 0 */
static inline int32_t remainder_i32(int32_t a, int32_t b)
{
  return b ? a - floor_divide_i32(a, b) * b : 0;
}

int kernel_floor_divide(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const x_p = p[0]; const int64_t x_s0 = 4; /* operands, strides in bytes */
  char *const z0_p = p[1]; const int64_t z0_s0 = 4;
  char *const z1_p = p[2]; const int64_t z1_s0 = 4;

  for (int64_t b0 = begin, e0 = begin + TO_LINE(z0_p + begin * z0_s0, 4, end - begin); b0 < end; b0 = e0, e0 = end)
    INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++) {
      const int32_t x_v = AT(const int32_t, x_p, i0 * x_s0);
      AT(int32_t, z0_p, i0 * z0_s0) = floor_divide_i32(x_v, 7);
      AT(int32_t, z1_p, i0 * z1_s0) = remainder_i32(x_v, -3);
    }
  return 0;
}
