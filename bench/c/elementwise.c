void axpy(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < n; i++)
    out[i] = 2 * x[i] + y[i];
}

void madd(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < n; i++)
    out[i] = x[i] * y[i] + 1;
}

void poly(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < n; i++)
    out[i] = x[i] * y[i] + (x[i] - y[i]) / (x[i] * x[i] + y[i] * y[i] + 1);
}

void transcendental(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < n; i++)
    out[i] = exp(-x[i] * x[i] / 2) * sin(y[i]) + log1p(fabs(x[i]));
}

/* tanh(u) = 1 - 2 / (exp(2u) + 1) */
static inline T tanh_by_exp(T u) { return 1 - 2 / (exp(2 * u) + 1); }

void gelu(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); OUT(out, 1);
  PARALLEL
  for (int64_t i = 0; i < n; i++) {
    const T u = 0.7978845608028654 * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    out[i] = 0.5 * x[i] * (1 + tanh_by_exp(u));
  }
}

void standardize(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(mu, 1); IN(sd, 2); IN(g, 3); IN(b, 4); OUT(out, 5);
  PARALLEL
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] = (x[i * n + j] - mu[j]) / sd[j] * g[j] + b[j];
}

void row_broadcast(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(g, 1); IN(b, 2); OUT(out, 3);
  PARALLEL
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] = x[i * n + j] * g[j] + b[j];
}

void lead_broadcast(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(s, 1); IN(t, 2); OUT(out, 3);
  PARALLEL
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] = x[i * n + j] * s[i] + t[i];
}

/* Normal distribution function, Abramowitz and Stegun 26.2.17 */
static inline T phi(T x)
{
  const T k = 1 / (1 + 0.2316419 * fabs(x));
  const T poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937
                 + k * (-1.821255978 + k * 1.330274429))));
  const T tail = 0.3989422804014327 * exp(-0.5 * x * x) * poly;
  return x > 0 ? 1 - tail : tail;
}

void black_scholes(int64_t m, int64_t n, void *const *p)
{
  IN(s, 0); IN(k, 1); IN(t, 2); OUT(call, 3); OUT(put, 4);
  PARALLEL
  for (int64_t i = 0; i < n; i++) {
    const T spread = 0.2 * sqrt(t[i]);
    const T d1 = (log(s[i] / k[i]) + 0.05 * t[i]) / spread;
    const T discounted = k[i] * exp(-0.03 * t[i]);
    const T price = s[i] * phi(d1) - discounted * phi(d1 - spread);
    call[i] = price;
    put[i] = price - s[i] + discounted;
  }
}

/* A tile of b is turned in L1. */
void transposed(int64_t m, int64_t n, void *const *p)
{
  enum { SIDE = 32 };
  IN(a, 0); IN(b, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i0 = 0; i0 < m; i0 += SIDE)
    for (int64_t j0 = 0; j0 < n; j0 += SIDE) {
      const int64_t rows = m - i0 < SIDE ? m - i0 : SIDE, columns = n - j0 < SIDE ? n - j0 : SIDE;
      T tile[SIDE][SIDE];
      for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
          tile[i][j] = b[(j0 + j) * m + i0 + i];
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
          out[(i0 + i) * n + j0 + j] = a[(i0 + i) * n + j0 + j] + tile[i][j];
    }
}
