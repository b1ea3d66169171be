// What decides, for sign tests: a thread a feature, all sizes at once. Statistics and numbers of signs lie size by size.

#define NO_END 1073741824

// Mark the numbers of signs that occur.
extern "C" __global__ void mark_numbers(const int* nonzero, long long d, int sizes, int width, unsigned char* occurs) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  for (int s = 0; s < sizes; ++s) {
    unsigned char* mark = occurs + s * width + nonzero[s * d + i];
    if (!*mark) *mark = 1;
  }
}

// How many bad rows a feature has room for in one era: the most that any statistic leaves of what is asked of it.
__device__ int room_of(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* asked, long long i) {
  int most = -NO_END;
  for (int s = 0; s < sizes; ++s) {
    const int room = statistic[s * d + i] - asked[s * width + nonzero[s * d + i]];
    most = room > most ? room : most;
  }
  return most;
}

// Mark the features that have room for a slack, in its era and up to the ends of all eras before.
extern "C" __global__ void reach(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* asked, int eras,
    const int* lasts, int slack, unsigned char* reached) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  for (int e = 0; e < eras && (e == 0 || slack > lasts[e - 1]); ++e) {
    const int wanted = slack < lasts[e] ? slack : lasts[e];
    if (room_of(statistic, nonzero, d, sizes, width, asked + (size_t)e * sizes * width, i) < wanted) return;
  }
  reached[i] = 1;
}

// Raise each feature's slack to the largest, up to ``high``, that it has room for, and count the features of each slack.
// Many copies of the counters keep threads out of each other's way.
extern "C" __global__ void raise_slack(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* asked, int eras,
    const int* lasts, int low, int high, int bins, int copies, int* slack, int* copied) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  int most = slack[i];
  for (int e = 0; e < eras; ++e) {
    const int room = room_of(statistic, nonzero, d, sizes, width, asked + (size_t)e * sizes * width, i);
    int cut = room < high ? room : high;
    cut = cut < lasts[e] ? cut : lasts[e];
    if (e > 0 && cut <= lasts[e - 1]) break;
    most = cut > most ? cut : most;
    if (room < lasts[e]) break;
  }
  slack[i] = most;
  atomicAdd(copied + (size_t)(blockIdx.x % copies) * bins + (most - low), 1);
}

// Add the copies up and leave them empty.
extern "C" __global__ void add_copies(int bins, int copies, int* copied, int* features) {
  const int bin = blockIdx.x * blockDim.x + threadIdx.x;
  if (bin >= bins) return;
  int total = 0;
  for (int k = 0; k < copies; ++k) {
    total += copied[(size_t)k * bins + bin];
    copied[(size_t)k * bins + bin] = 0;
  }
  features[bin] = total;
}
