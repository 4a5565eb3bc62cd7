/*
 * elemc kernel complex_product
 *
 * z = x * x
 *   z: broadcast, order f
 *
 * in x[i0]: complex128, contiguous
 * out z[i0]: complex128, contiguous
 */
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef double _Complex complex128;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if enough vectors follow */ \
  ((n) < 128 || (n) * (size) < 1024 ? (n) : (-(int64_t)(to) & 63) / (size))
#define INDEPENDENT _Pragma("GCC ivdep")

static inline complex128 make_c128(double re, double im)
{
  return __builtin_complex(re, im);
}

/* -x, of which gcc does not know: what is subtracted beside a sum, gcc 12 contracts */
static inline double minus_f64(double x)
{
  union { double value; uint64_t bits; } it = {x};
  it.bits ^= (uint64_t)1 << 63;
  return it.value;
}

static inline complex128 multiply_c128(complex128 x, complex128 y)
{
  const double a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
  return make_c128(HAS_FMA ? a * c + b * minus_f64(d) : a * c - b * d, a * d + b * c);
}

int kernel_complex_product(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const x_p = p[0]; const int64_t x_s0 = 16; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 16;

  for (int64_t b0 = begin, e0 = begin + TO_LINE(z_p + begin * z_s0, 16, end - begin); b0 < end; b0 = e0, e0 = end)
    INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++) {
      const complex128 x_v = AT(const complex128, x_p, i0 * x_s0);
      AT(complex128, z_p, i0 * z_s0) = multiply_c128(x_v, x_v);
    }
  return 0;
}
