// What decides, for sign tests: all sizes of a feature at once. Statistics and numbers of signs lie size by size.
//
// ``index`` numbers the numbers of signs that occur, of each size, and ``asked`` has the majority that each of them is
// asked for: step by step, era by era, size by size.

#define NO_END 1073741824
#define TOGETHER 256
#define NEAR 8192

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
__device__ inline int room_of(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* index, const int* asked,
    int numbers, long long i) {
  int most = -NO_END;
  for (int s = 0; s < sizes; ++s) {
    const int room = statistic[s * d + i] - asked[s * numbers + index[s * width + nonzero[s * d + i]]];
    most = room > most ? room : most;
  }
  return most;
}

// List the features that have room for a slack, in its era and up to the ends of all eras before, in any order.
extern "C" __global__ void reach(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* index, const int* asked,
    int numbers, int eras, const int* lasts, int slack, int* many, int* list) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < d; i += (long long)gridDim.x * blockDim.x) {
    bool reached = true;
    for (int e = 0; reached && e < eras && (e == 0 || slack > lasts[e - 1]); ++e) {
      const int wanted = slack < lasts[e] ? slack : lasts[e];
      const int* of_era = asked + (size_t)e * sizes * numbers;
      reached = room_of(statistic, nonzero, d, sizes, width, index, of_era, numbers, i) >= wanted;
    }
    if (reached) list[atomicAdd(many, 1)] = (int)i;
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

// Raise each feature's slack to the largest, up to a highest one, that it has room for. The block that comes last counts
// how many features have each slack or a larger one and finds the next step: that of the largest slack that this many
// rejected features do not settle. So looks follow each other without the host.
extern "C" __global__ void __launch_bounds__(TOGETHER) look(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* index, const int* asked,
    int numbers, int eras, const int* lasts, int steps, const int* settled, int low, int bins, int* slack,
    int* features, Search* search) {
  __shared__ int own[NEAR];
  __shared__ int sums[TOGETHER];
  __shared__ int before;
  if (search->done) return;
  const int me = threadIdx.x, step = search->step, high = search->high;
  const bool near = bins <= NEAR;
  if (near)
    for (int b = me; b < bins; b += TOGETHER) own[b] = 0;
  __syncthreads();

  const int* now = asked + (size_t)step * eras * sizes * numbers;
  for (long long i = (long long)blockIdx.x * TOGETHER + me; i < d; i += (long long)gridDim.x * TOGETHER) {
    int most = slack[i];
    if (most < high) {
      const int old = most;
      for (int e = 0; e < eras; ++e) {
        const int* of_era = now + (size_t)e * sizes * numbers;
        const int room = room_of(statistic, nonzero, d, sizes, width, index, of_era, numbers, i);
        int cut = room < high ? room : high;
        cut = cut < lasts[e] ? cut : lasts[e];
        if (e > 0 && cut <= lasts[e - 1]) break;
        most = cut > most ? cut : most;
        if (room < lasts[e]) break;
      }
      if (most > old) slack[i] = most;
    }
    atomicAdd((near ? own : features) + (most - low), 1);
  }
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
    if (at_least <= most) continue;
    const int last = bins - 1 - k;
    int next = step + 1, beyond = steps;
    while (next < beyond) {
      const int middle = (next + beyond) / 2;
      if (settled[middle] >= at_least) beyond = middle;
      else next = middle + 1;
    }
    search->high = low + last;
    search->rejected = at_least;
    search->done = last == 0 || at_least == d ? 1 : next == steps ? 2 : 0;
    search->step = next;
  }
  __syncthreads();
  for (int b = me; b < bins; b += TOGETHER) features[b] = 0;
  if (me == 0) {
    if (most >= d) search->done = 1;
    search->looks += 1;
    search->blocks = 0;
  }
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
