// What decides, for sign tests: all sizes of a feature at once. Statistics and numbers of signs lie size by size.
//
// ``index`` numbers the numbers of signs that occur, of each size, and ``asked`` has the majority that each of them is
// asked for: era by era, size by size.

#define NO_END 1073741824
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
