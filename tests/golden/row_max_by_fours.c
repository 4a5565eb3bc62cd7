/*
 * elemc kernel row_max_by_fours
 *
 * z = max(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define IN_TURNS(from) ((from) + 32768 - ((int64_t)(from) & 32767) /* 32 KiB on, of 8 pages */ \
  + (((int64_t)(from) >> 6 & 7) << 12) + (((int64_t)(from) >> 9 & 63) << 6))
#define FETCH_FROM(way, from, on) /* 0: not; 1, 2: to that cache, `on` bytes ahead; 8: in turns */ \
  ((way) ? __builtin_prefetch((way) == 8 ? IN_TURNS(from) : (from) + (on), 0, (way) == 1 ? 3 : 2) : (void)0)
#define FETCH_SUM(from) FETCH_FROM(ASK_SUM, from, 8192) /* of what is only added up */
#define STREAMS (SUM_ROWS == 4) /* if four streams come sooner than one */
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16 };

/* the greater; NaN if either is */
static inline double maximum_f64(double a, double b)
{
  const double best = b > a ? b : a; /* one instruction, which gives NaN if a is */
  return b != b ? __builtin_nan("") : best; /* not b: gcc would compare twice */
}

int kernel_row_max_by_fours(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  if (n1 < 16) __builtin_unreachable(); /* callers see to it */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 8; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 8;

  /* i0 by fours, then what is left */
  for (int64_t i0 = begin; STREAMS && i0 < end - 3; i0 += 4) {
    /* max0: max, other_max0: max, third_max0: max, fourth_max0: max along i1, in lanes */
    double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    double other_max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    double third_max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    double fourth_max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
      other_max0_lane[l] = maximum_f64(other_max0_lane[l], AT(const double, x_p, (i0 + 1) * x_s0 + i1 * x_s1));
      third_max0_lane[l] = maximum_f64(third_max0_lane[l], AT(const double, x_p, (i0 + 2) * x_s0 + i1 * x_s1));
      fourth_max0_lane[l] = maximum_f64(fourth_max0_lane[l], AT(const double, x_p, (i0 + 3) * x_s0 + i1 * x_s1));
    }
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
      other_max0_lane[l] = maximum_f64(other_max0_lane[l], AT(const double, x_p, (i0 + 1) * x_s0 + i1 * x_s1));
      third_max0_lane[l] = maximum_f64(third_max0_lane[l], AT(const double, x_p, (i0 + 2) * x_s0 + i1 * x_s1));
      fourth_max0_lane[l] = maximum_f64(fourth_max0_lane[l], AT(const double, x_p, (i0 + 3) * x_s0 + i1 * x_s1));
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]), other_max0_lane[l] = maximum_f64(other_max0_lane[l], other_max0_lane[l + h]), third_max0_lane[l] = maximum_f64(third_max0_lane[l], third_max0_lane[l + h]), fourth_max0_lane[l] = maximum_f64(fourth_max0_lane[l], fourth_max0_lane[l + h]);
    const double max0 = max0_lane[0];
    const double other_max0 = other_max0_lane[0];
    const double third_max0 = third_max0_lane[0];
    const double fourth_max0 = fourth_max0_lane[0];
    AT(double, z_p, i0 * z_s0) = max0;
    AT(double, z_p, (i0 + 1) * z_s0) = other_max0;
    AT(double, z_p, (i0 + 2) * z_s0) = third_max0;
    AT(double, z_p, (i0 + 3) * z_s0) = fourth_max0;
  }
  for (int64_t i0 = STREAMS ? end - (end - begin) % 4 : begin; i0 < end; i0++) {
    /* max0: max along i1, in lanes */
    double max0_lane[LANES] = {[0 ... LANES - 1] = -__builtin_inf()};
    FETCH_SUM(x_p + i0 * x_s0 + (n1 - 1) * x_s1);
    for (int64_t k = 0; k < n1 / LANES; k++) {
      FETCH_SUM(x_p + i0 * x_s0 + k * LANES * x_s1);
      FETCH_SUM(x_p + i0 * x_s0 + k * LANES * x_s1 + 64);
      UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
        max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    }
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++)
      max0_lane[l] = maximum_f64(max0_lane[l], AT(const double, x_p, i0 * x_s0 + i1 * x_s1));
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      max0_lane[l] = maximum_f64(max0_lane[l], max0_lane[l + h]);
    const double max0 = max0_lane[0];
    AT(double, z_p, i0 * z_s0) = max0;
  }
  return 0;
}
