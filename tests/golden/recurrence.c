/*
 * elemc kernel recurrence
 *
 * z = scan(horner, x, axis=1)
 *   z: broadcast, order f
 *
 * in x[i0, i1]: float64, contiguous
 * out z[i0, i1]: float64, contiguous
 */
typedef __INT64_TYPE__ int64_t;
#define INDEPENDENT _Pragma("GCC ivdep")
enum { ABREAST = 16 };

typedef int64_t side_f64 __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
#define SIDE_F64 (__BIGGEST_ALIGNMENT__ / 8) /* lines at a time */

/* A square of lines, by swapping ever larger parts of pairs of them: Eklundh, A fast computer method for
   matrix transposing, IEEE Transactions on Computers 21 (1972). */
static inline void turn_square_f64(char *to, int64_t to_step, const char *from, int64_t step)
{
  side_f64 line[SIDE_F64], lane;
#pragma GCC unroll 16
  for (int k = 0; k < SIDE_F64; k++) {
    __builtin_memcpy(&line[k], from + k * step, sizeof(side_f64));
    lane[k] = k;
  }
#pragma GCC unroll 4
  for (int s = 0; 1 << s < SIDE_F64; s++) {
    const int64_t part = 1 << s, other = SIDE_F64 - part;
    const side_f64 low = lane + (((lane & part) != 0) & other), high = low + part;
#pragma GCC unroll 16
    for (int k = 0; k < SIDE_F64; k++)
      if (!(k & 1 << s)) {
        const side_f64 a = line[k], b = line[k | 1 << s];
#ifdef __clang__
        for (int i = 0; i < SIDE_F64; i++) {
          line[k][i] = low[i] < SIDE_F64 ? a[low[i]] : b[low[i] - SIDE_F64];
          line[k | 1 << s][i] = high[i] < SIDE_F64 ? a[high[i]] : b[high[i] - SIDE_F64];
        }
#else
        line[k] = __builtin_shuffle(a, b, low);
        line[k | 1 << s] = __builtin_shuffle(a, b, high);
#endif
      }
  }
#pragma GCC unroll 16
  for (int k = 0; k < SIDE_F64; k++)
    __builtin_memcpy(to + k * to_step, &line[k], sizeof(side_f64));
}

/* Lines of memory, a step apart, into columns: squares, the last of which may overlap.  Those of short lines, but
   not of very short ones, reach into the lines that follow, if these lie behind.  Inlined, its constants would be
   loaded again after every other call. */
static __attribute__((noinline)) void turn_f64(void *to, int64_t to_step, const void *from, int64_t step, int64_t rows, int64_t columns)
{
  const int64_t side = SIDE_F64, size = sizeof(double), beyond = (side - rows) * size;
  const int reach = beyond > 0;
  int64_t whole = !reach ? columns : step > 0 && rows > side / 4 ? columns - (beyond + step - 1) / step : 0;
  if (whole < side) whole = 0;
  for (int64_t k = 0; k < whole; k += side)
    for (int64_t i = 0; i < rows; i += side) {
      const int64_t c = k < whole - side ? k : whole - side, r = i < rows - side || reach ? i : rows - side;
      char square[SIDE_F64 * sizeof(side_f64)], *const at = (char *)to + r * to_step + c * size;
      turn_square_f64(reach ? square : at, reach ? side * size : to_step, (const char *)from + c * step + r * size, step);
      for (int64_t l = 0; reach && l < rows; l++)
        __builtin_memcpy(at + l * to_step, square + l * side * size, sizeof(side_f64));
    }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = whole; c < columns; c++)
      ((double *)((char *)to + r * to_step))[c] = ((const double *)((const char *)from + c * step))[r];
}

int kernel_recurrence(int64_t phase, int64_t begin, int64_t end, char *const *p, const int64_t *s,
       const int64_t *n, volatile int64_t *decided, char *const *w)
{
  const int64_t n1 = n[1]; /* extents */
  const char *const x_p = p[0]; const int64_t x_s0 = s[0]; /* operands, strides in bytes */
  char *const z_p = p[1]; const int64_t z_s0 = s[1];
  double *const x_rows0 = (double *)w[0]; /* buffers */
  double *const z_rows0 = (double *)w[1];

  /* ABREAST rows side by side */
  for (int64_t b0 = begin; b0 < end; b0 += ABREAST) {
    const int w0 = end - b0 < ABREAST ? (int)(end - b0) : ABREAST;
    turn_f64(x_rows0, ABREAST * 8, x_p + b0 * x_s0, x_s0, n1, w0);
    _Alignas(64) double horner0[ABREAST];
    INDEPENDENT for (int l = 0; l < w0; l++)
      horner0[l] = 0.0;
    for (int64_t i1 = 0; i1 < n1; i1++) {
      INDEPENDENT for (int l = 0; l < w0; l++) {
        horner0[l] = 2.0 * horner0[l] + x_rows0[i1 * ABREAST + l];
        const double t0 = horner0[l];
        z_rows0[i1 * ABREAST + l] = t0;
      }
    }
    turn_f64(z_p + b0 * z_s0, z_s0, z_rows0, ABREAST * 8, w0, n1);
  }
  return 0;
}
