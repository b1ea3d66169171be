// What decides, for sign tests: all sizes of a feature at once. Statistics and numbers of signs lie size by size.
//
// ``index`` numbers the numbers of signs that occur, of each size, and ``asked`` has the majority that each of them is
// asked for: step by step, era by era, size by size.

#define NO_END 1073741824
#define TOGETHER 256
#define NEAR 8192
#define MOST_SIZES 14  // seven sizes of buckets, of both sides of a smallest effect

// The larger number of signs, or that of one side (1 positive, −1 negative), how many there are, and which numbers occur.
extern "C" __global__ void majorities(
    const int* positive, const int* negative, long long d, int sizes, int width, int side, int* statistic, int* nonzero,
    unsigned char* occurs) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    for (int s = 0; s < sizes; ++s) {
      const int p = positive[s * d + i], n = negative[s * d + i];
      statistic[s * d + i] = side > 0 ? p : side < 0 ? n : p > n ? p : n;
      nonzero[s * d + i] = p + n;
      unsigned char* mark = occurs + s * width + p + n;
      if (!*mark) *mark = 1;
    }
  }
}

// How many bad rows a feature has room for in one era: the most that any statistic leaves of what is asked of it.
// ``asked`` is that of the era; ``mine`` and ``which`` are a feature's statistics and which of the numbers it has.
template <int SIZES>
__device__ inline int room_of(const int* mine, const int* which, int sizes, const int* asked, int numbers) {
  int most = -NO_END;
#pragma unroll
  for (int s = 0; s < SIZES; ++s) {
    if (s >= sizes) break;
    const int room = mine[s] - asked[s * numbers + which[s]];
    most = room > most ? room : most;
  }
  return most;
}

// List the features that have room for a slack, in its era and up to the ends of all eras before, in any order. Of the
// first of them ``rows`` has all that is known: which feature it is, its statistics, its numbers of signs.
extern "C" __global__ void reach(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* index, const int* asked,
    int numbers, int eras, const int* lasts, int slack, int* many, int* list, int* rows, int most_rows) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    int mine[MOST_SIZES], which[MOST_SIZES];
    for (int s = 0; s < MOST_SIZES; ++s) {
      if (s >= sizes) break;
      mine[s] = statistic[s * d + i];
      which[s] = index[s * width + nonzero[s * d + i]];
    }
    bool reached = true;
    for (int e = 0; reached && e < eras && (e == 0 || slack > lasts[e - 1]); ++e) {
      const int wanted = slack < lasts[e] ? slack : lasts[e];
      reached = room_of<MOST_SIZES>(mine, which, sizes, asked + (size_t)e * sizes * numbers, numbers) >= wanted;
    }
    if (!reached) continue;
    const int at = atomicAdd(many, 1);
    list[at] = (int)i;
    if (at >= most_rows) continue;
    int* row = rows + (size_t)at * (1 + 2 * sizes);
    row[0] = (int)i;
    for (int s = 0; s < sizes; ++s) {
      row[1 + s] = statistic[s * d + i];
      row[1 + sizes + s] = nonzero[s * d + i];
    }
  }
}

struct Search {  // where a search for slacks stands
  int step;      // of the thresholds, which is looked at
  int high;      // slacks above it are settled
  int rejected;  // features at the largest slack that is not
  int done;      // 1 where all is settled, 2 where thresholds are missing
  int looks;
  int blocks;    // that are through with this look
};

struct Signs {  // of all features, and the eras
  const int *statistic, *nonzero;
  long long d;
  int sizes, width;
  const int* index;
  int numbers, eras;
  const int* lasts;
};

// Raise slacks by what is asked ``now`` and count how many features have each. What a thread asks memory for, of AHEAD
// features, is on its way at once.
template <int SIZES, int AHEAD>
__device__ inline void raise(const Signs of, const int* now, int low, int high, int* slack, int* counters) {
  const long long apart = (long long)gridDim.x * TOGETHER;
  for (long long first = (long long)blockIdx.x * TOGETHER + threadIdx.x; first < of.d; first += AHEAD * apart) {
    int mine[AHEAD][SIZES], which[AHEAD][SIZES], old[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
      const long long i = first + k * apart;
      if (i >= of.d) break;
      old[k] = slack[i];
#pragma unroll
      for (int s = 0; s < SIZES; ++s) {
        if (s >= of.sizes) break;
        mine[k][s] = of.statistic[s * of.d + i];
        which[k][s] = of.nonzero[s * of.d + i];
      }
    }
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
      const long long i = first + k * apart;
      if (i >= of.d) break;
      int most = old[k];
      if (most < high) {
#pragma unroll
        for (int s = 0; s < SIZES; ++s) {
          if (s >= of.sizes) break;
          which[k][s] = of.index[s * of.width + which[k][s]];
        }
        for (int e = 0; e < of.eras; ++e) {
          const int* of_era = now + (size_t)e * of.sizes * of.numbers;
          const int room = room_of<SIZES>(mine[k], which[k], of.sizes, of_era, of.numbers);
          int cut = room < high ? room : high;
          cut = cut < of.lasts[e] ? cut : of.lasts[e];
          if (e > 0 && cut <= of.lasts[e - 1]) break;
          most = cut > most ? cut : most;
          if (room < of.lasts[e]) break;
        }
        if (most > old[k]) slack[i] = most;
      }
      atomicAdd(counters + (most - low), 1);
    }
  }
}

// Raise each feature's slack to the largest, up to a highest one, that it has room for. The block that comes last counts
// how many features have each slack or a larger one and finds the next step: that of the largest slack that this many
// rejected features do not settle. So looks follow each other without the host. The first one begins with step ``start``
// and slack ``top``, the others, which have a negative ``start``, where the one before them ended.
extern "C" __global__ void __launch_bounds__(TOGETHER, 4) look(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* index, const int* asked,
    int numbers, int eras, const int* lasts, int steps, const int* settled, int low, int bins, int start, int top,
    int* slack, int* features, Search* search) {
  __shared__ int own[NEAR];
  __shared__ int sums[TOGETHER];
  __shared__ int before, last, rejected, next;
  const bool begins = start >= 0;
  if (!begins && search->done) return;
  const int me = threadIdx.x, step = begins ? start : search->step, high = begins ? top : search->high;
  const bool near = bins <= NEAR;
  if (near)
    for (int b = me; b < bins; b += TOGETHER) own[b] = 0;
  __syncthreads();

  const int* now = asked + (size_t)step * eras * sizes * numbers;
  const Signs of = {statistic, nonzero, d, sizes, width, index, numbers, eras, lasts};
  if (near && sizes <= 3) raise<3, 4>(of, now, low, high, slack, own);  // adding to memory that is known to be near
  else if (near) raise<MOST_SIZES, 1>(of, now, low, high, slack, own);
  else raise<MOST_SIZES, 1>(of, now, low, high, slack, features);
  __syncthreads();
  if (near)
    for (int b = me; b < bins; b += TOGETHER)
      if (own[b]) atomicAdd(features + b, own[b]);
  __threadfence();
  __syncthreads();
  if (me == 0) before = atomicAdd(&search->blocks, 1);
  __syncthreads();
  if (before < (int)gridDim.x - 1) return;

  volatile int* counted = features;
  if (near)
    for (int b = me; b < bins; b += TOGETHER) own[b] = counted[b];
  __syncthreads();
  const int part = (bins + TOGETHER - 1) / TOGETHER, first = me * part;  // counted from the largest slack on
  const int end = first + part < bins ? first + part : bins;
  int sum = 0;
  for (int k = first; k < end; ++k) sum += near ? own[bins - 1 - k] : counted[bins - 1 - k];
  sums[me] = sum;
  if (me == 0) last = -1, next = steps;
  __syncthreads();
  for (int apart = 1; apart < TOGETHER; apart *= 2) {
    const int other = me >= apart ? sums[me - apart] : 0;
    __syncthreads();
    sums[me] += other;
    __syncthreads();
  }
  const int most = settled[step];
  int at_least = sums[me] - sum;
  for (int k = first; k < end && at_least <= most; ++k) {
    at_least += near ? own[bins - 1 - k] : counted[bins - 1 - k];
    if (at_least > most) last = bins - 1 - k, rejected = at_least;  // one thread at most comes here
  }
  __syncthreads();
  for (int b = me; b < bins; b += TOGETHER) features[b] = 0;
  if (last >= 0)
    for (int t = step + 1 + me; t < steps; t += TOGETHER)
      if (settled[t] >= rejected && (t == step + 1 || settled[t - 1] < rejected)) next = t;
  __syncthreads();
  if (me > 0) return;
  if (last >= 0) {
    search->high = low + last;
    search->rejected = rejected;
    search->step = next;
  }
  search->done = last <= 0 || rejected == d || most >= d ? 1 : next == steps ? 2 : 0;
  search->looks += 1;
  search->blocks = 0;
}

// Put numbers of a few features in their places: ``columns`` doubles each, then a size, then which feature it is.
extern "C" __global__ void put(
    const double* rows, long long many, int columns, long long d, double* values, long long* sizes) {
  for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < many; k += (long long)gridDim.x * blockDim.x) {
    const long long at = (long long)rows[(columns + 1) * many + k];
    for (int c = 0; c < columns; ++c) values[c * d + at] = rows[c * many + k];
    sizes[at] = (long long)rows[columns * many + k];
  }
}

// β₀ = (N₊ − N₋)/J at the best size of each feature, and that size; ``present`` has J where it is not the same for all.
extern "C" __global__ void betas(
    const int* positive, const int* negative, const int* present, long long d, int sizes, const int* of_sizes,
    const long long* best, double* beta, long long* size) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    const long long at = best[i] * d + i, buckets = present ? present[at] : of_sizes[best[i]];
    beta[i] = (double)(positive[at] - negative[at]) / (double)(buckets > 1 ? buckets : 1);
    size[i] = of_sizes[sizes + best[i]];
  }
}

// How many rows a feature is from the other side, which it is on up to its slack: ``beyond`` has it from ``end`` on.
extern "C" __global__ void distances(
    const long long* slack, const long long* beyond, long long end, long long bad_rows, long long d, long long* radius) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    const long long last = beyond && slack[i] >= end ? beyond[i] : slack[i];
    radius[i] = last >= bad_rows ? last - bad_rows + 1 : bad_rows - last;
  }
}

// Slacks as shares of all rows; NaN, by its bits, where there is none.
extern "C" __global__ void shares(const long long* slack, long long d, long long rows, double* share) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    if (slack[i] < 0) ((long long*)share)[i] = 0x7ff8000000000000LL;
    else share[i] = (double)slack[i] / (double)rows;
  }
}
