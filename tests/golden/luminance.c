/*
 * elemc kernel luminance
 *
 * z = sum(image * gain, axis=2)
 *   z: broadcast, order f
 *
 * in image[i0, i1]: uint8, contiguous
 * in gain[i1]: float32, contiguous
 * out z[i0]: float32, contiguous
 */
typedef __UINT8_TYPE__ uint8_t;
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
#define UNROLL _Pragma("GCC unroll 4")
#define UNROLL_8 _Pragma("GCC unroll 8")
enum { LANES_64 = 64, BLOCK = 4096, TREE = 40 };

int kernel_luminance(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const image_p = p[0]; const int64_t image_s0 = s[0], image_s1 = 1; /* operands, strides in bytes */
  const char *const gain_p = p[1]; const int64_t gain_s1 = 4;
  char *const z_p = p[2]; const int64_t z_s0 = 4;

  for (int64_t i0 = begin; i0 < end; i0++) {
    /* sum0: sum along i1, in lanes */
    float sum0 = 0.0f, sum0_tree[TREE]; int64_t sum0_top = 0;
    for (int64_t b1 = 0; b1 < n1; b1 += BLOCK) {
      const int64_t e1 = b1 + BLOCK < n1 ? b1 + BLOCK : n1;
      sum0 = 0.0f;
      if (e1 - b1 >= LANES_64) {
        float sum0_lane[LANES_64] = {0};
        for (int64_t k = b1 / LANES_64; k < e1 / LANES_64; k++) UNROLL for (int64_t l = 0, i1 = k * LANES_64; l < LANES_64; l++, i1++)
          sum0_lane[l] = sum0_lane[l] + (float)AT(const uint8_t, image_p, i0 * image_s0 + i1 * image_s1) * AT(const float, gain_p, i1 * gain_s1);
        UNROLL for (int64_t l = 0, i1 = e1 - LANES_64; l < LANES_64; l++, i1++) {
          const float sum0_next = sum0_lane[l] + (float)AT(const uint8_t, image_p, i0 * image_s0 + i1 * image_s1) * AT(const float, gain_p, i1 * gain_s1);
          sum0_lane[l] = l < LANES_64 - e1 % LANES_64 ? sum0_lane[l] : sum0_next;
        }
        UNROLL_8 for (int h = LANES_64 / 2; h > 0; h /= 2) for (int l = 0; l < h; l++)
          sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
        sum0 = sum0_lane[0];
      }
      for (int64_t i1 = e1 - (e1 - b1 < LANES_64 ? e1 % LANES_64 : 0); i1 < e1; i1++)
        sum0 = sum0 + (float)AT(const uint8_t, image_p, i0 * image_s0 + i1 * image_s1) * AT(const float, gain_p, i1 * gain_s1);
      for (int64_t c = b1 / BLOCK; c & 1; c >>= 1, sum0_top--) sum0 = sum0_tree[sum0_top - 1] + sum0;
      sum0_tree[sum0_top++] = sum0;
    }
    while (--sum0_top > 0) sum0 = sum0_tree[sum0_top - 1] + sum0;
    AT(float, z_p, i0 * z_s0) = sum0;
  }
  return 0;
}
