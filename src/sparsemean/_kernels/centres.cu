// Centres of columns that lie one after the other, each sorted, what is missing (NaN) at its end: a block a column.
// Sums of two values are counted by all threads together, each on its stretch of the walk along them.


struct Split {  // of all ordered pairs by a value: how many sums are up to it, the largest of those, the smallest above
  long long count;
  double through, above;
};
__device__ inline void join(Split& a, const Split& b) {
  a.count += b.count;
  a.through = fmax(a.through, b.through);
  a.above = fmin(a.above, b.above);
}
__device__ inline Split across(const Split& x, int lanes) {
  return {__shfl_xor_sync(WHOLE_WARP, x.count, lanes), __shfl_xor_sync(WHOLE_WARP, x.through, lanes),
          __shfl_xor_sync(WHOLE_WARP, x.above, lanes)};
}

// Numbers of the kind true, …, true, false, …, false: where the first false one is.
template <typename Says>
__device__ inline int first_false(int low, int high, const Says& says) {
  while (low < high) {
    const int middle = (low + high) >> 1;
    if (says(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// From the smallest and the largest value on: where their sum is up to the value the smaller one goes up, with all pairs
// that it makes with those in between, else the larger one goes down. The walk has n steps, and where it is after some
// of them can be found by halving.
__device__ Split split_sums(const double* y, int n, double value) {
  const int stretch = (n + THREADS - 1) / THREADS;
  int step = min((int)threadIdx.x * stretch, n);
  const int end = min(step + stretch, n);
  int i = first_false(0, step, [&](int k) { return y[k] + y[n - step + k] <= value; });
  int j = n - 1 - (step - i);
  Split found = {0, -INFINITE, INFINITE};
  for (; step < end; ++step) {
    const double sum = y[i] + y[j];
    if (sum <= value) {
      found.count += 2 * (j - i) + 1;
      found.through = fmax(found.through, sum);
      ++i;
    } else {
      found.above = fmin(found.above, sum);
      --j;
    }
  }
  return all_of(found);
}

// How many of n sorted values, from an end, make up at least that share of all pairs.
__device__ inline int corner(int n, double share) { return min(n, (int)(sqrt(share) * n) + 1); }

// The k-th smallest sum of all ordered pairs; ends of the range are sums themselves, so the answer is exact.
__device__ double ordered_sum(const double* y, int n, long long k) {
  const long long total = (long long)n * n;
  double low = 2.0 * y[n - corner(n, (double)(total - k + 1) / total)];
  double high = 2.0 * y[corner(n, (double)k / total) - 1];
  long long before = 0, through_high = total;
  for (int step = 0; low < high; ++step) {
    const double share = step % 3 == 0 ? 0.5 : (k - before - 0.5) / (through_high - before);
    double middle = (1.0 - share) * low + share * high;
    if (!(low <= middle && middle < high)) middle = low;
    const Split found = split_sums(y, n, middle);
    if (found.count >= k) {
      high = found.through;
      through_high = found.count;
    } else {
      low = found.above;
      before = found.count;
    }
  }
  return high;
}

// The median of all averages of two values; products are by powers of two, so nothing is lost where they are joined.
__device__ double pseudomedian(const double* y, int n) {
  const long long total = (long long)n * n;
  double middle = ordered_sum(y, n, (total + 1) / 2);
  if (total % 2 == 0) {
    const Split found = split_sums(y, n, middle);
    if (found.count <= total / 2) middle = __dadd_rn(0.5 * middle, 0.5 * found.above);
  }
  return 0.5 * middle;
}

// The k-th smallest distance, from 0, to a centre that ``below`` values are smaller than.
__device__ double ordered_distance(const double* y, int n, double centre, int below, int k) {
  const int left = first_false(max(0, k + 1 - (n - below)), min(k + 1, below), [&](int taken) {
    return fabs(y[below - 1 - taken] - centre) < fabs(y[below + k - taken] - centre);
  });
  const double one = left > 0 ? fabs(y[below - left] - centre) : 0.0;
  return left < k + 1 ? fmax(one, fabs(y[below + k - left] - centre)) : one;
}

__device__ inline int number_below(const double* y, int n, double centre) {
  return first_false(0, n, [&](int k) { return y[k] < centre; });
}

__device__ double median_distance(const double* y, int n, double centre) {
  const int below = number_below(y, n, centre);
  const double high = ordered_distance(y, n, centre, below, n / 2);
  return n % 2 ? high : 0.5 * (ordered_distance(y, n, centre, below, n / 2 - 1) + high);
}

// Values that are there, before the NaN at the end.
__device__ inline int present(const double* y, int n) {
  return first_false(0, n, [&](int k) { return y[k] == y[k]; });
}

// Where each column starts from, the median or the pseudomedian; NaN where nothing is left.
extern "C" __global__ void __launch_bounds__(THREADS) starts(
    const double* columns, int n_rows, int by_median, double* start) {
  const double* y = columns + (size_t)blockIdx.x * n_rows;
  const int n = present(y, n_rows);
  double from = INFINITE - INFINITE;
  if (n) from = by_median ? (n % 2 ? y[n / 2] : 0.5 * (y[n / 2 - 1] + y[n / 2])) : pseudomedian(y, n);
  if (threadIdx.x == 0) start[blockIdx.x] = from;
}

struct Centre {
  double value, error;
};

// Ranks one standard deviation of Wilcoxon's statistic to either side of the median, twice that for ordered pairs.
__device__ Centre hodges_lehmann(const double* y, int n) {
  const long long total = (long long)n * n;
  const long long reach = (long long)ceil(2.0 * sqrt((double)((long long)n * (n + 1) * (2LL * n + 1)) / 24.0));
  const double low = 0.5 * ordered_sum(y, n, max((total + 1) / 2 - reach, 1LL));
  const double high = 0.5 * ordered_sum(y, n, min(total / 2 + 1 + reach, total));
  return {pseudomedian(y, n), __dadd_rn(0.5 * high, -0.5 * low)};
}

// Student-t centres: both equations of the likelihood at once, from four sums a step, as on the host.
#define ROUNDS 100
#define PRECISE 1e-7
#define COLLAPSED 1e-9
#define BEYOND 1e50

__device__ Numbers<double, 4> score_sums(
    const double* y, int n, double start, double unit, double centre, double scale, double dof) {
  Numbers<double, 4> sums = {};
  for (int k = threadIdx.x; k < n; k += THREADS) {
    const double r = (fmin(fmax((y[k] - start) / unit, -BEYOND), BEYOND) - centre) / scale, q = 1.0 / (dof + r * r);
    sums.at[0] += q;
    sums.at[1] += q * q;
    sums.at[2] += q * r;
    sums.at[3] += q * q * r;
  }
  return all_of(sums);
}

// In units of ``unit`` about ``start``.
__device__ Centre student_t(const double* y, int n, double start, double unit, double dof) {
  double centre = 0.0, scale = 1.0;
  for (int round = 0; round < ROUNDS; ++round) {
    const Numbers<double, 4> sums = score_sums(y, n, start, unit, centre, scale, dof);
    const double q = sums.at[0], q2 = sums.at[1], qr = sums.at[2], q2r = sums.at[3], mean = qr / q;
    const double slope = 2.0 * dof * q2 - q, spread = 2.0 * dof * (q - dof * q2);
    const double skew = 2.0 * dof * q2r, mixed = qr - skew, excess = n - dof * q - n / (dof + 1.0);
    const double determinant = slope * spread + skew * mixed;
    const bool concave = slope > 0.0 && spread > 0.0 && determinant > 0.0;
    double move = concave ? (qr * spread + excess * mixed) / determinant : INFINITE, factor;
    const double growth = concave ? (excess * slope - skew * qr) / determinant : INFINITE;
    if (fabs(move) <= 0.5 && fabs(growth) <= 1.0) {
      factor = exp(growth);
    } else {
      move = mean;
      factor = sqrt(fmax((n - dof * q) / q - mean * mean, 0.0));
    }
    centre += move * scale;
    if (scale * factor < COLLAPSED) break;
    if (fabs(move) <= PRECISE && fabs(factor - 1.0) <= 1e-3)
      return {centre, slope > 0.0 ? scale * sqrt(q - dof * q2) / slope : INFINITE};
    scale *= factor;
  }
  return {centre, INFINITE};
}

// The Hodges–Lehmann estimate of what is not far from the start, then Student-t centres: values and errors of (columns,
// kinds). ``rule`` has what makes a median distance a deviation, how many of them are far, how many are near, the fewest
// rows that are compared, and the degrees of freedom. An infinite error says that a centre is not to be used.
// ``compared`` is 0 where the first stands for all, −1 where nothing but the start does.
extern "C" __global__ void __launch_bounds__(THREADS) locate(
    const double* columns, int n_rows, const double* start, const double* rule, int kinds, double* values, double* errors,
    signed char* compared) {
  const double far = rule[1], near = rule[2], fewest = rule[3];
  const double* y = columns + (size_t)blockIdx.x * n_rows;
  const int n = present(y, n_rows);
  const double from = start[blockIdx.x];
  const double spread = n ? rule[0] * median_distance(y, n, from) : 0.0;
  const bool several = n >= fewest && spread > 0.0;
  int first = 0, last = n;
  if (several) {
    const int below = number_below(y, n, from);
    first = first_false(0, below, [&](int k) { return fabs(y[k] - from) > far * spread; });
    last = first_false(below, n, [&](int k) { return fabs(y[k] - from) <= far * spread; });
  }
  const Centre inner = n ? hodges_lehmann(y + first, last - first) : Centre{from, INFINITE};
  if (threadIdx.x == 0) compared[blockIdx.x] = n ? several : -1;
  for (int k = 0; k < kinds; ++k) {
    Centre found = inner;
    if (several && k > 0) {
      const Centre away = student_t(y, n, inner.value, spread, rule[3 + k]);
      found = {inner.value + spread * away.value, fabs(away.value) <= near ? spread * away.error : INFINITE};
    }
    if (threadIdx.x == 0) {
      values[(size_t)kinds * blockIdx.x + k] = found.value;
      errors[(size_t)kinds * blockIdx.x + k] = found.error;
    }
  }
}
