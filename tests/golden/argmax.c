/*
 * elemc kernel argmax
 *
 * z = argmax(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: int64, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
typedef uint8_t bool_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#ifdef __AVX512F__
#define FEW_REGISTERS 0
#else
#define FEW_REGISTERS 1 /* or narrow ones: more lanes would go through memory */
#endif
#define UNROLL _Pragma("GCC unroll 4")
#define UNROLL_8 _Pragma("GCC unroll 8")
enum { PLACES_32 = 32 >> FEW_REGISTERS };

static inline int64_t minimum_i64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_argmax(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* argmax0: argmax, max0: max along i1, in lanes */
    int64_t argmax0 = 0;
    double max0 = -__builtin_inf();
    if (n1 >= PLACES_32) {
      int64_t argmax0_lane[PLACES_32] = {0};
      double max0_lane[PLACES_32] = {[0 ... PLACES_32 - 1] = -__builtin_inf()};
      for (int64_t k = 0; k < n1; k += PLACES_32)
        UNROLL for (int64_t l = 0, i1 = k < n1 - PLACES_32 ? k : n1 - PLACES_32; l < PLACES_32; l++, i1++) {
          const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
          const bool_t t0 = !(x_v <= max0_lane[l]) & max0_lane[l] == max0_lane[l];
          argmax0_lane[l] = t0 ? i1 : argmax0_lane[l];
          max0_lane[l] = t0 ? x_v : max0_lane[l];
        }
      double max0_best[PLACES_32];
      for (int l = 0; l < PLACES_32; l++)
        max0_best[l] = max0_lane[l];
      UNROLL_8 for (int h = PLACES_32 / 2; h > 0; h /= 2) for (int l = 0; l < h; l++)
        max0_best[l] = maximum_f64(max0_best[l], max0_best[l + h]);
      for (int l = 0; l < PLACES_32; l++)
        argmax0_lane[l] = !(max0_best[0] <= max0_lane[l]) & max0_lane[l] == max0_lane[l] ? 9223372036854775807LL : argmax0_lane[l];
      UNROLL_8 for (int h = PLACES_32 / 2; h > 0; h /= 2) for (int l = 0; l < h; l++)
        argmax0_lane[l] = minimum_i64(argmax0_lane[l], argmax0_lane[l + h]), max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
      argmax0 = argmax0_lane[0], max0 = max0_lane[0];
    }
    for (int64_t i1 = n1 - (n1 < PLACES_32 ? n1 % PLACES_32 : 0); i1 < n1; i1++) {
      const double x_v = AT(const double, x_p, i0 * x_s0 + i1 * x_s1);
      const bool_t t0 = !(x_v <= max0) & max0 == max0;
      argmax0 = t0 ? i1 : argmax0;
      max0 = t0 ? x_v : max0;
    }
    AT(int64_t, z_p, i0 * z_s0) = argmax0;
  }
  return 0;
}
