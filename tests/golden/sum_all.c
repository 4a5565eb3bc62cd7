/*
 * elemc kernel sum_all
 *
 * z = sum(x)
 *   z: broadcast, order f
 *
 * in x[i0]: float64, contiguous
 * out z[]: float64
 */
typedef __INT64_TYPE__ int64_t;
#define AT(type, pointer, offset) (*(type *)((pointer) + (offset)))
enum { LANES = 32, BLOCK = 4096, TREE = 40 };

int kernel_sum_all(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, const int64_t *tune, char *const *w)
{
  /* extents */
  const int64_t n0 = n[0];
  /* operands: pointers, and strides in bytes */
  const char *const x_p = p[0];
  const int64_t x_s0 = 8;
  char *const z_p = p[1];

  /* sum0: sum along i0, in lanes */
  double sum0, sum0_lane[LANES], sum0_tree[TREE];
  int64_t sum0_count = 0, sum0_top = 0;
  for (int64_t b0 = 0; b0 < n0; b0 += BLOCK, sum0_count++) {
    const int64_t e0 = b0 + BLOCK < n0 ? b0 + BLOCK : n0;
    for (int l = 0; l < LANES; l++)
      sum0_lane[l] = 0.0;
    int64_t sum0_i = b0;
    for (; sum0_i + LANES <= e0; sum0_i += LANES)
      for (int64_t l = 0, i0 = sum0_i; l < LANES; l++, i0++)
        sum0_lane[l] = sum0_lane[l] + AT(const double, x_p, i0 * x_s0);
    for (int64_t l = 0, i0 = sum0_i; i0 < e0; l++, i0++)
      sum0_lane[l] = sum0_lane[l] + AT(const double, x_p, i0 * x_s0);
    for (int h = LANES / 2; h > 0; h /= 2)
      for (int l = 0; l < h; l++)
        sum0_lane[l] = sum0_lane[l] + sum0_lane[l + h];
    sum0 = sum0_lane[0];
    for (int64_t c = sum0_count; c & 1; c >>= 1, sum0_top--)
      sum0 = sum0_tree[sum0_top - 1] + sum0;
    sum0_tree[sum0_top++] = sum0;
  }
  sum0 = sum0_top ? sum0_tree[sum0_top - 1] : 0.0;
  while (--sum0_top > 0)
    sum0 = sum0_tree[sum0_top - 1] + sum0;
  AT(double, z_p, 0) = sum0;
  return 0;
}
