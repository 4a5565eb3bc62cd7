/*
 * elemc kernel half
 *
 * z = x * x + 1
 *   z: broadcast, order f
 *
 * in x[i0]: float16, contiguous
 * out z[i0]: float16, contiguous
 */
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
#define INDEPENDENT _Pragma("GCC ivdep")
enum { PIECE = 512 };
extern void elemc_floats_of_halves(void *to, const void *from, int64_t n);
extern void elemc_halves_of_floats(void *to, const void *from, int64_t n);

static inline uint32_t bits_f32(float x)
{
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

static inline float float_of_bits(uint32_t bits)
{
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/* a float rounded to float16: the sum with 3 * 2**12 times its power of two, or the least that is not subnormal, has as
   many bits as are left of it; what is beyond the largest is infinite 2**112 times as large */
static inline float round_half(float x)
{
  const uint32_t size = bits_f32(x) & 0x7F800000, least = size > 0x38800000 ? size : 0x38800000;
  const float power = float_of_bits((least < 0x47000000 ? least : 0x47000000) + 0x06C00000);
  return __builtin_copysignf((x + power - power) * 0x1p+112f * 0x1p-112f, x);
}

int kernel_half(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const x_p = p[0]; const int64_t x_s0 = 2; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 2;

  for (int64_t b0 = begin; b0 < end; b0 += PIECE) {
    const int w0 = end - b0 < PIECE ? (int)(end - b0) : PIECE;
    _Alignas(64) float x_floats[PIECE];
    elemc_floats_of_halves(x_floats, x_p + b0 * x_s0, w0);
    _Alignas(64) float z_floats[PIECE];
    INDEPENDENT for (int l = 0; l < w0; l++) {
      const float x_v = x_floats[l];
      z_floats[l] = round_half(x_v * x_v) + 1.0f;
    }
    elemc_halves_of_floats(z_p + b0 * z_s0, z_floats, w0);
  }
  return 0;
}
