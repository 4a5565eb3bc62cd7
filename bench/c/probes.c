/*
 * What memory can do: read some streams and write others, all of the same length, side by side, and
 * compute next to nothing.  One read is `read`, one and one `copy`, two and one `triad`.
 *
 * What does not fill a page at the end is left out.  Streaming stores go past the caches.
 */
#include <stdint.h>

#if defined __AVX512F__
#include <immintrin.h>
enum { WIDE = 64 };
#define STREAM(place, value) _mm512_stream_si512((void *)(place), (__m512i)(value))
#elif defined __AVX__
#include <immintrin.h>
enum { WIDE = 32 };
#define STREAM(place, value) _mm256_stream_si256((void *)(place), (__m256i)(value))
#else
enum { WIDE = 16 };
#define STREAM(place, value) (*(place) = (value))
#endif

enum { PAGE = 4096, LANES = 4, MOST = 4 };
typedef int64_t vector __attribute__((vector_size(WIDE), aligned(8)));

#define EACH(l) for (int l = 0; l < LANES; l++)

/* One page of each; inlined for every number of streams. */
static inline __attribute__((always_inline)) void visit(
    int64_t start, int reads, int writes, int streaming, void *const *p)
{
  const char *in[MOST];
  char *out[MOST];
  vector seen[LANES], read[LANES];
  for (int r = 0; r < reads; r++)
    in[r] = (const char *)p[r] + start;
  for (int w = 0; w < writes; w++)
    out[w] = (char *)p[reads + w] + start;
  EACH(l) seen[l] = (vector){0};
  for (int64_t k = 0; k < PAGE; k += LANES * WIDE) {
    EACH(l) read[l] = *(const vector *)(in[0] + k + l * WIDE);
    for (int r = 1; r < reads; r++)
      EACH(l) read[l] ^= *(const vector *)(in[r] + k + l * WIDE);
    for (int w = 0; w < writes; w++)
      if (streaming)
        EACH(l) STREAM((vector *)(out[w] + k + l * WIDE), read[l]);
      else
        EACH(l) *(vector *)(out[w] + k + l * WIDE) = read[l];
    if (!writes)
      EACH(l) seen[l] ^= read[l];
  }
  if (!writes)
    __asm__ volatile("" : : "m"(seen));
}

static int aligned(int reads, int writes, void *const *p)
{
  for (int w = reads; w < reads + writes; w++)
    if ((intptr_t)p[w] % WIDE)
      return 0;
  return 1;
}

#define FORM(reads, writes) case 8 * reads + writes: VISIT(reads, writes); break;
#define VISIT(reads, writes) \
  _Pragma("omp parallel for") \
  for (int64_t page = 0; page < bytes / PAGE; page++) \
    if (streaming && stream) visit(page * PAGE, reads, writes, 1, p); \
    else visit(page * PAGE, reads, writes, 0, p)

void probe(int64_t bytes, int reads, int writes, int streaming, void *const *p)
{
  const int stream = aligned(reads, writes, p);
  switch (8 * reads + writes) {
    FORM(1, 0) FORM(2, 0) FORM(3, 0) FORM(4, 0)
    FORM(1, 1) FORM(2, 1) FORM(3, 1) FORM(4, 1)
    FORM(1, 2) FORM(2, 2) FORM(3, 2) FORM(4, 2)
  }
}
