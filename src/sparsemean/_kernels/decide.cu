// What decides, for sign tests: a thread a feature, all sizes at once. Statistics and numbers of signs lie size by size.

// Mark the numbers of signs that occur.
extern "C" __global__ void mark_numbers(const int* nonzero, long long d, int sizes, int width, unsigned char* occurs) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  for (int s = 0; s < sizes; ++s) {
    unsigned char* mark = occurs + s * width + nonzero[s * d + i];
    if (!*mark) *mark = 1;
  }
}

// Mark the features one of whose statistics, less a slack, reaches what is asked of its number of signs.
extern "C" __global__ void reach(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* asked, int slack,
    unsigned char* reached) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  for (int s = 0; s < sizes; ++s)
    if (statistic[s * d + i] - slack >= asked[s * width + nonzero[s * d + i]]) reached[i] = 1;
}

// Raise each feature's slack to the largest, up to ``high``, at which one of its statistics reaches what is asked of it,
// and count the features of each slack. Many copies of the counters keep threads out of each other's way.
extern "C" __global__ void raise_slack(
    const int* statistic, const int* nonzero, long long d, int sizes, int width, const int* asked, int low, int high,
    int bins, int copies, int* slack, int* copied) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d) return;
  int most = slack[i];
  for (int s = 0; s < sizes; ++s) {
    const int room = statistic[s * d + i] - asked[s * width + nonzero[s * d + i]];
    const int cut = room < high ? room : high;
    most = cut > most ? cut : most;
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
