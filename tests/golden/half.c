/*
 * elemc kernel half
 *
 * z = x * x + 1
 *   z: broadcast, order f
 *
 * in x[i0]: float16, contiguous
 * out z[i0]: float16, contiguous
 */
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef uint16_t half;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define TO_LINE(to, size, n) /* elements until a line begins, if the row is not short */ \
  ((n) < 128 ? (n) : (-(int64_t)(to) & 63) / (size))
#define INDEPENDENT _Pragma("GCC ivdep")

static inline float float_of_bits(uint32_t bits)
{
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

static inline uint32_t bits_f32(float x)
{
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

/* float16 to float, exact; without branches (the FP16 library's method) */
static inline float half_to_float(half h)
{
  const uint32_t twice = (uint32_t)h << 17, sign = (uint32_t)(h & 0x8000) << 16;
  const float normal = float_of_bits((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
  const float tiny = float_of_bits((twice >> 17) | (126u << 23)) - 0.5f;
  return float_of_bits(sign | bits_f32(twice < (1u << 27) ? tiny : normal));
}

/* a float rounded to float16: the sum with a power of two has as many bits as are left of it */
static inline float round_half(float x)
{
  const uint32_t bias = (bits_f32(x) << 1) & 0xFF000000, most = bias > 0x8F000000 ? 0x8F000000 : bias;
  const float power = float_of_bits((most < 0x71000000 ? 0x71000000 : most) / 2 + 0x07800000);
  const float rounded = power + __builtin_fabsf(x) * 0x1p+112f * 0x1p-110f - power; /* of 4 |x| */
  return __builtin_copysignf(rounded * 0x1p+110f * 0x1p-112f, x);
}

/* float to float16, to nearest even; without branches (the FP16 library's method) */
static inline half float_to_half(float x)
{
  const uint32_t bits = bits_f32(x), twice = bits + bits, sign = (bits >> 16) & 0x8000;
  const uint32_t bias = twice & 0xFF000000, scale = bias < 0x71000000 ? 0x71000000 : bias;
  const float magnitude = __builtin_fabsf(x) * 0x1p+112f * 0x1p-110f;
  const uint32_t sum = bits_f32(float_of_bits((scale >> 1) + 0x07800000) + magnitude);
  const uint32_t rounded = ((sum >> 13) & 0x7C00) + (sum & 0x0FFF);
  return (half)(sign | (twice > 0xFF000000 ? 0x7E00 : rounded));
}

int kernel_half(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const char *const x_p = p[0]; const int64_t x_s0 = 2; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 2;

  for (int64_t b0 = begin, e0 = begin + TO_LINE(z_p + begin * z_s0, 2, end - begin); b0 < end; b0 = e0, e0 = end)
    INDEPENDENT for (int64_t i0 = b0; i0 < e0; i0++) {
      const float x_v = half_to_float(AT(const half, x_p, i0 * x_s0));
      AT(half, z_p, i0 * z_s0) = float_to_half(round_half(x_v * x_v) + 1.0f);
    }
  return 0;
}
