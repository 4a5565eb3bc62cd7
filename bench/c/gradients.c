static void clear(int64_t n, T *restrict x, T *restrict y)
{
  for (int64_t j = 0; j < n; j++)
    x[j] = y[j] = 0;
}

void gelu_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(g, 1); IN(b, 2); OUT(gx, 3); OUT(gg, 4); OUT(gb, 5);
  const T share = 0.5 / (T)(m * n);
  clear(n, gg, gb);
  PARALLEL_WITH(reduction(+: gg[:n], gb[:n]))
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const T u = x[i * n + j] * g[j] + b[j], u2 = u * u;
      const T t = tanh_by_exp(0.7978845608028654 * u * (1 + 0.044715 * u2));
      const T d = share * (1 + t + 0.7978845608028654 * u * (1 - t * t) * (1 + 0.134145 * u2));
      gx[i * n + j] = d * g[j];
      gg[j] += d * x[i * n + j];
      gb[j] += d;
    }
}

void layer_norm_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(g, 1); IN(c, 3); OUT(gx, 4); OUT(gg, 5); OUT(gb, 6);
  clear(n, gg, gb);
  PARALLEL_WITH(reduction(+: gg[:n], gb[:n]))
  for (int64_t i = 0; i < m; i++) {
    T total = 0, level = 0, squares = 0, along = 0;
    for (int64_t j = 0; j < n; j++) {
      total += x[i * n + j];
      level += c[i * n + j] * g[j];
    }
    const T mean = total / n;
    level /= n;
    for (int64_t j = 0; j < n; j++) {
      squares += (x[i * n + j] - mean) * (x[i * n + j] - mean);
      along += c[i * n + j] * g[j] * (x[i * n + j] - mean);
    }
    const T scale = 1 / sqrt(squares / n + 1e-5);
    along *= scale / n;
    for (int64_t j = 0; j < n; j++) {
      const T z = (x[i * n + j] - mean) * scale;
      gx[i * n + j] = (c[i * n + j] * g[j] - level - z * along) * scale;
      gg[j] += c[i * n + j] * z;
      gb[j] += c[i * n + j];
    }
  }
}

void cross_entropy_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(t, 1); OUT(gx, 2);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T top = x[i * n], total = 0, targets = 0;
    for (int64_t j = 0; j < n; j++)
      top = x[i * n + j] > top ? x[i * n + j] : top;
    for (int64_t j = 0; j < n; j++) {
      total += gx[i * n + j] = exp(x[i * n + j] - top);
      targets += t[i * n + j];
    }
    const T share = targets / total;
    for (int64_t j = 0; j < n; j++)
      gx[i * n + j] = (gx[i * n + j] * share - t[i * n + j]) / m;
  }
}

void product_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(w, 1); OUT(gx, 2);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T before = w[i], after = 1;
    for (int64_t j = 0; j < n; j++) {
      gx[i * n + j] = before;
      before *= x[i * n + j];
    }
    for (int64_t j = n - 1; j >= 0; j--) {
      gx[i * n + j] *= after;
      after *= x[i * n + j];
    }
  }
}

void logistic_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(w, 1); IN(b, 2); IN(t, 3); OUT(gx, 4); OUT(gw, 5); OUT(gb, 6);
  const T size = m * n;
  clear(n, gw, gb);
  PARALLEL_WITH(reduction(+: gw[:n], gb[:n]))
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const T u = x[i * n + j] * w[j] + b[j], e = exp(-fabs(u));
      const T d = ((u > 0 ? 1 : e) / (1 + e) - t[i * n + j]) / size;
      gx[i * n + j] = d * w[j];
      gw[j] += d * x[i * n + j];
      gb[j] += d;
    }
}

void student_t_grad(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(mu, 1); IN(s, 2); OUT(gmu, 3); OUT(gs, 4);
  const T freedom = 5;
  clear(n, gmu, gs);
  PARALLEL_WITH(reduction(+: gmu[:n], gs[:n]))
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const T z = (x[i * n + j] - mu[j]) / s[j];
      const T d = (freedom + 1) * z / (freedom + z * z);
      gmu[j] -= d;
      gs[j] += d * z;
    }
  for (int64_t j = 0; j < n; j++) {
    gmu[j] /= s[j];
    gs[j] = (m - gs[j]) / s[j];
  }
}
