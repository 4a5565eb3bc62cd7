void sum(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  T total = 0;
  PARALLEL_WITH(reduction(+: total))
  for (int64_t i = 0; i < m; i++) {
    T row = 0;
    for (int64_t j = 0; j < n; j++)
      row += x[i * n + j] * y[i * n + j];
    total += row;
  }
  *out = total;
}

void squared_distance(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  T total = 0;
  PARALLEL_WITH(reduction(+: total))
  for (int64_t i = 0; i < m; i++) {
    T row = 0;
    for (int64_t j = 0; j < n; j++)
      row += (x[i * n + j] - y[i * n + j]) * (x[i * n + j] - y[i * n + j]);
    total += row;
  }
  *out = total;
}

void row_sums(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T row = 0;
    for (int64_t j = 0; j < n; j++)
      row += x[i * n + j] * y[i * n + j];
    out[i] = row;
  }
}

void row_norms(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(v, 1); OUT(out, 2);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T row = 0;
    for (int64_t j = 0; j < n; j++)
      row += x[i * n + j] * x[i * n + j];
    out[i] = sqrt(row) + v[i];
  }
}

void row_max(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); OUT(out, 1);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T top = x[i * n];
    for (int64_t j = 0; j < n; j++)
      top = x[i * n + j] > top ? x[i * n + j] : top;
    out[i] = top;
  }
}

void row_product(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); OUT(out, 1);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T row = 1;
    for (int64_t j = 0; j < n; j++)
      row *= x[i * n + j];
    out[i] = row;
  }
}

void column_sums(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(y, 1); OUT(out, 2);
  for (int64_t j = 0; j < n; j++)
    out[j] = 0;
  PARALLEL_WITH(reduction(+: out[:n]))
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      out[j] += x[i * n + j] * y[i * n + j];
}

void weighted_columns(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(w, 1); OUT(out, 2);
  for (int64_t j = 0; j < n; j++)
    out[j] = 0;
  PARALLEL_WITH(reduction(+: out[:n]))
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      out[j] += x[i * n + j];
  for (int64_t j = 0; j < n; j++)
    out[j] *= w[j];
}

void softmax(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); OUT(out, 1);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T top = x[i * n], total = 0;
    for (int64_t j = 0; j < n; j++)
      top = x[i * n + j] > top ? x[i * n + j] : top;
    for (int64_t j = 0; j < n; j++)
      total += out[i * n + j] = exp(x[i * n + j] - top);
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] /= total;
  }
}

void logsumexp(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); OUT(out, 1);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T top = x[i * n], total = 0;
    for (int64_t j = 0; j < n; j++)
      top = x[i * n + j] > top ? x[i * n + j] : top;
    for (int64_t j = 0; j < n; j++)
      total += exp(x[i * n + j] - top);
    out[i] = log(total) + top;
  }
}

void layer_norm(int64_t m, int64_t n, void *const *p)
{
  IN(x, 0); IN(g, 1); IN(b, 2); OUT(out, 3);
  PARALLEL
  for (int64_t i = 0; i < m; i++) {
    T total = 0, squares = 0;
    for (int64_t j = 0; j < n; j++)
      total += x[i * n + j];
    const T mean = total / n;
    for (int64_t j = 0; j < n; j++)
      squares += (x[i * n + j] - mean) * (x[i * n + j] - mean);
    const T scale = 1 / sqrt(squares / n + 1e-5);
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] = (x[i * n + j] - mean) * scale * g[j] + b[j];
  }
}
