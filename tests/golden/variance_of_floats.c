/*
 * elemc kernel variance_of_floats
 *
 * z = var(x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float32, contiguous
 * out z[i0]: float32, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define FETCH(from) __builtin_prefetch(from)
#define ROLLED _Pragma("GCC unroll 1") /* until there are vectors */
#define UNROLL _Pragma("GCC unroll 4")
enum { LANES = 16 };

int kernel_variance_of_floats(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  if (n1 < 16) __builtin_unreachable(); /* callers see to it */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0], x_s1 = 4; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = 4;

  /* i0 by twos, then what is left */
  for (int64_t i0 = begin; i0 < end - 1; i0 += 2) {
    /* sum0: sum, other_sum0: sum along i1, in lanes */
    float sum0_lane[LANES] = {0};
    float other_sum0_lane[LANES] = {0};
    for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
      sum0_lane[l] = sum0_lane[l] + AT(const float, x_p, i0 * x_s0 + i1 * x_s1);
      other_sum0_lane[l] = other_sum0_lane[l] + AT(const float, x_p, (i0 + 1) * x_s0 + i1 * x_s1);
    }
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      const float sum0_next = sum0_lane[l] + AT(const float, x_p, i0 * x_s0 + i1 * x_s1);
      sum0_lane[l] = l < LANES - n1 % LANES ? sum0_lane[l] : sum0_next;
      const float other_sum0_next = other_sum0_lane[l] + AT(const float, x_p, (i0 + 1) * x_s0 + i1 * x_s1);
      other_sum0_lane[l] = l < LANES - n1 % LANES ? other_sum0_lane[l] : other_sum0_next;
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h], other_sum0_lane[l] = other_sum0_lane[l] + other_sum0_lane[l + h];
    const float sum0 = sum0_lane[0];
    const float other_sum0 = other_sum0_lane[0];
    const float t0 = sum0 / (float)n1;
    const float other_t0 = other_sum0 / (float)n1;
    /* sum1: sum, other_sum1: sum along i1, in lanes */
    float sum1_lane[LANES] = {0};
    float other_sum1_lane[LANES] = {0};
    for (int64_t k = 0; k < n1 / LANES; k++) {
      FETCH(x_p + i0 * x_s0 + k * LANES * x_s1 + 2 * x_s0);
      FETCH(x_p + (i0 + 1) * x_s0 + k * LANES * x_s1 + 2 * x_s0);
      UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
        const float t1 = AT(const float, x_p, i0 * x_s0 + i1 * x_s1) - t0;
        sum1_lane[l] = sum1_lane[l] + t1 * t1;
        const float other_t1 = AT(const float, x_p, (i0 + 1) * x_s0 + i1 * x_s1) - other_t0;
        other_sum1_lane[l] = other_sum1_lane[l] + other_t1 * other_t1;
      }
    }
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      const float t1 = AT(const float, x_p, i0 * x_s0 + i1 * x_s1) - t0;
      const float sum1_next = sum1_lane[l] + t1 * t1;
      sum1_lane[l] = l < LANES - n1 % LANES ? sum1_lane[l] : sum1_next;
      const float other_t1 = AT(const float, x_p, (i0 + 1) * x_s0 + i1 * x_s1) - other_t0;
      const float other_sum1_next = other_sum1_lane[l] + other_t1 * other_t1;
      other_sum1_lane[l] = l < LANES - n1 % LANES ? other_sum1_lane[l] : other_sum1_next;
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      sum1_lane[l] = sum1_lane[l] + sum1_lane[l + h], other_sum1_lane[l] = other_sum1_lane[l] + other_sum1_lane[l + h];
    const float sum1 = sum1_lane[0];
    const float other_sum1 = other_sum1_lane[0];
    AT(float, z_p, i0 * z_s0) = sum1 / (float)n1;
    AT(float, z_p, (i0 + 1) * z_s0) = other_sum1 / (float)n1;
  }
  for (int64_t i0 = end - (end - begin) % 2; i0 < end; i0++) {
    /* sum0: sum along i1, in lanes */
    float sum0_lane[LANES] = {0};
    for (int64_t k = 0; k < n1 / LANES; k++) UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++)
      sum0_lane[l] = sum0_lane[l] + AT(const float, x_p, i0 * x_s0 + i1 * x_s1);
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      const float sum0_next = sum0_lane[l] + AT(const float, x_p, i0 * x_s0 + i1 * x_s1);
      sum0_lane[l] = l < LANES - n1 % LANES ? sum0_lane[l] : sum0_next;
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
    const float sum0 = sum0_lane[0];
    const float t0 = sum0 / (float)n1;
    /* sum1: sum along i1, in lanes */
    float sum1_lane[LANES] = {0};
    for (int64_t k = 0; k < n1 / LANES; k++) {
      FETCH(x_p + i0 * x_s0 + k * LANES * x_s1 + x_s0);
      UNROLL for (int64_t l = 0, i1 = k * LANES; l < LANES; l++, i1++) {
        const float t1 = AT(const float, x_p, i0 * x_s0 + i1 * x_s1) - t0;
        sum1_lane[l] = sum1_lane[l] + t1 * t1;
      }
    }
    UNROLL for (int64_t l = 0, i1 = n1 - LANES; l < LANES; l++, i1++) {
      const float t1 = AT(const float, x_p, i0 * x_s0 + i1 * x_s1) - t0;
      const float sum1_next = sum1_lane[l] + t1 * t1;
      sum1_lane[l] = l < LANES - n1 % LANES ? sum1_lane[l] : sum1_next;
    }
    UNROLL for (int h = LANES / 2; h > 0; h /= 2) ROLLED for (int l = 0; l < h; l++)
      sum1_lane[l] = sum1_lane[l] + sum1_lane[l + h];
    const float sum1 = sum1_lane[0];
    AT(float, z_p, i0 * z_s0) = sum1 / (float)n1;
  }
  return 0;
}
