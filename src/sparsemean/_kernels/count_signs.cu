// Sign counts of nested buckets of all wanted sizes, for a matrix that lies by rows: one pass, a few columns a thread.
//
// A leaf is a bucket of the finest size: one row, or a run of rows (RUNS). A bucket of level h holds 2^h leaves that
// follow each other. Sums are taken in double precision in the order of kernels/reference.py, so that every kernel sees
// the same signs. Compiled for one case at a time; what the case is comes as macros:
//   KIND    1 double, 2 float, 3 half precision, 4 bfloat16
//   WIDTH   columns a thread; VECTOR: they are neighbours, read at once
//   DEPTH   levels; WANTED: bit h is set where level h is counted
//   RUNS    leaves are runs of rows; SHIFTED: a number is taken from every feature first; GAPS: NaN is not there
//           (sums are zero then as kernels/rounding.py has it; compiled without fused products, which round otherwise)
//   STAGES  fours of rows that are on their way while one is counted

#if KIND == 1
typedef double Value;
#elif KIND == 2
typedef float Value;
#else
typedef unsigned short Value;
#endif

struct alignas(sizeof(Value) * WIDTH) Pack { Value at[WIDTH]; };
struct alignas(16) Places { long long at[2]; };

__device__ constexpr int number_of_bits(int x) { return x == 0 ? 0 : (x & 1) + number_of_bits(x >> 1); }
constexpr int SIZES = number_of_bits(WANTED);
constexpr int TOP = DEPTH - 1;

// Signs of single values are looked at in the precision in which they come; nothing is lost by that.
#if KIND == 1
typedef double Plain;
#else
typedef float Plain;
#endif

__device__ inline Plain plain(Value x) {
#if KIND <= 2
  return x;
#elif KIND == 3
  return half_to_float(x);
#else
  return bits_to_float((unsigned int)x << 16);
#endif
}

struct Node {  // a bucket of WIDTH columns: its sum, and how many rows it holds or, with GAPS, how many values
  double sum[WIDTH];
  int rows;
#if SHIFTED
  double size[WIDTH];  // the sum of what values are in size
#endif
#if GAPS
  int there[WIDTH];
#endif
};

#if SHIFTED  // of the type in which values come: eps, and how many of them a null value may be off by
constexpr double PRECISION = 1.0 / (1ll << (KIND == 1 ? 52 : KIND == 2 ? 23 : KIND == 3 ? 10 : 7));
constexpr double ROUNDING = 8.0, DOUBLES = 1.0 / (1ll << 52);
#endif

struct Tally {
  int positive[SIZES][WIDTH], negative[SIZES][WIDTH];
#if SHIFTED
  double null[WIDTH];
#endif
  double nearest[WIDTH];
  bool bad;
#if GAPS
  int present[SIZES][WIDTH], missing[WIDTH];
#endif
};

struct Rows {
  const char* start;        // the first column of this thread in row 0
  const long long* places;  // of the rows, leaf by leaf: how many bytes on from row 0
  const int* offsets;       // of the leaves among the rows
  size_t apart;             // values from one column of this thread to the next
  int width;                // columns of this thread that exist
};

__device__ inline Pack load(const Rows& X, int at) {
  const Value* from = (const Value*)(X.start + X.places[at]);
#if VECTOR
  return *(const Pack*)from;
#else
  Pack out;
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) out.at[k] = k < X.width ? from[k * X.apart] : (Value)0;
  return out;
#endif
}

// The sum of a bucket, zero where rounding may have made what it is.
__device__ inline double settled(const Tally& tally, const Node& node, int k) {
#if SHIFTED
#if GAPS
  const double there = node.there[k];
#else
  const double there = node.rows;
#endif
  const double about = magnitude(tally.null[k]), size = node.size[k];
  const double reach = about != 0.0 ? PRECISION : 0.0;
  const double added = reach < DOUBLES ? reach : DOUBLES;
  if (magnitude(node.sum[k]) <= ROUNDING * reach * (there * about + size) + added * (node.rows * size)) return 0.0;
#endif
  return node.sum[k];
}

template <int LEVEL>
__device__ inline void count(Tally& tally, const Node& node) {
  if ((WANTED >> LEVEL) & 1) {
    constexpr int size = number_of_bits(WANTED & ((1 << LEVEL) - 1));
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      const double sum = settled(tally, node, k);
      tally.positive[size][k] += sum > 0.0;
      tally.negative[size][k] += sum < 0.0;
#if GAPS
      tally.present[size][k] += node.there[k] > 0;
#endif
    }
  }
}

// Read a leaf and count it. Where it is a single row as it comes, its signs are those of the values themselves.
__device__ inline Node leaf(const Rows& X, int at, Tally& tally) {
  Node node;
#if RUNS
  const int first = X.offsets[at], last = X.offsets[at + 1];
#else
  const int first = at, last = at + 1;
#endif
  node.rows = last - first;
  for (int i = first; i < last; ++i) {
    const Pack pack = load(X, i);
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      const Plain x = plain(pack.at[k]);
      double value = (double)x;
#if SHIFTED
      value -= tally.null[k];
#endif
#if GAPS
      const bool there = !(value != value);
      value = there ? value : 0.0;
      node.there[k] = (i == first ? 0 : node.there[k]) + there;
      tally.missing[k] += !there;
#endif
      node.sum[k] = i == first ? value : node.sum[k] + value;
#if SHIFTED
      node.size[k] = i == first ? magnitude(value) : node.size[k] + magnitude(value);
#endif
#if !RUNS && !SHIFTED && !GAPS
      if (WANTED & 1) {
        tally.positive[0][k] += x > (Plain)0;
        tally.negative[0][k] += x < (Plain)0;
      }
#endif
    }
  }
#if RUNS || SHIFTED || GAPS
  count<0>(tally, node);
#endif
  return node;
}

template <int LEVEL>
struct Bucket {
  // All 2^LEVEL leaves from ``at`` on.
  static __device__ inline Node whole(const Rows& X, int at, Tally& tally) {
    Node node = Bucket<LEVEL - 1>::whole(X, at, tally);
    add(node, Bucket<LEVEL - 1>::whole(X, at + (1 << (LEVEL - 1)), tally));
    count<LEVEL>(tally, node);
    return node;
  }
  // Those that come before ``end``, at least one.
  static __device__ inline Node part(const Rows& X, int at, int end, Tally& tally) {
    Node node = Bucket<LEVEL - 1>::part(X, at, end, tally);
    const int middle = at + (1 << (LEVEL - 1));
    if (middle < end) add(node, Bucket<LEVEL - 1>::part(X, middle, end, tally));
    count<LEVEL>(tally, node);
    return node;
  }
  static __device__ inline void add(Node& node, const Node& other) {
    node.rows += other.rows;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      node.sum[k] += other.sum[k];
#if SHIFTED
      node.size[k] += other.size[k];
#endif
#if GAPS
      node.there[k] += other.there[k];
#endif
    }
  }
};

template <>
struct Bucket<0> {
  static __device__ inline Node whole(const Rows& X, int at, Tally& tally) { return leaf(X, at, tally); }
  static __device__ inline Node part(const Rows& X, int at, int, Tally& tally) { return leaf(X, at, tally); }
};

__device__ inline void look_at_top(Tally& tally, const Node& node) {
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    tally.bad |= !(magnitude(node.sum[k]) < INFINITE);
    double size = magnitude(settled(tally, node, k));
#if GAPS
    size = node.there[k] > 0 ? size / node.there[k] : 0.0;
#elif RUNS || SHIFTED
    size /= node.rows;
#endif
    if (size > 0.0 && size < tally.nearest[k]) tally.nearest[k] = size;
  }
}

#if KIND >= 3
__device__ inline const unsigned int* words_of(const Pack& pack) { return (const unsigned int*)&pack; }
__device__ inline float one_of_words(const unsigned int* words, int k) {
#if KIND == 3
  return half_to_float((unsigned short)(words[k / 2] >> (16 * (k % 2))));
#else
  return bits_to_float(k % 2 ? words[k / 2] & 0xffff0000u : words[k / 2] << 16);
#endif
}
#endif

// The short way, for single rows of up to 32 bits as they come: signs are collected bit by bit, 32 rows at a time.
// Cards older than Ampere cannot copy while they count.
#define SHORT (KIND >= 2 && VECTOR && !RUNS && !SHIFTED && !GAPS && DEPTH >= 3 && DEPTH <= 6 && __CUDA_ARCH__ >= 800)
#if SHORT
constexpr int GROUP = 32;

struct Feed {  // four rows after the other, asked for long before they are needed
  Pack* slots;
  const Rows& X;
  int next, end, turn;

  __device__ inline void ask() {
    if (next < end) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const Places two = *(const Places*)(X.places + next + i);
        copy_in<sizeof(Pack)>(slots + (turn * 4 + i) * THREADS, X.start + two.at[0]);
        copy_in<sizeof(Pack)>(slots + (turn * 4 + i + 1) * THREADS, X.start + two.at[1]);
      }
      next += 4;
    }
    asked();
    turn = turn + 1 == STAGES ? 0 : turn + 1;
  }
  __device__ inline void four(Pack (&rows)[4]) {  // the oldest four, in whose place new ones are asked for
    await<STAGES - 1>();
#pragma unroll
    for (int i = 0; i < 4; ++i) rows[i] = slots[(turn * 4 + i) * THREADS];
    ask();
  }
};

struct Signs {  // of one group of rows, a bit a bucket
  unsigned int negative[SIZES][WIDTH], not_positive[SIZES][WIDTH];
#if KIND >= 3  // values of 16 bits, two to a word, are compared and counted as they are
  unsigned int two_negative[WIDTH / 2], two_positive[WIDTH / 2];
#endif
};

// ``x`` has the sign bit of a bucket's sum, is never −0, and has other bits unless the sum is zero.
template <int LEVEL>
__device__ inline void collect(Signs& signs, int k, int x) {
  constexpr int size = number_of_bits(WANTED & ((1 << LEVEL) - 1));
  if ((WANTED >> LEVEL) & 1) {
    signs.negative[size][k] = push_sign(signs.negative[size][k], x);
    signs.not_positive[size][k] = push_sign(signs.not_positive[size][k], x - 1);
  }
}

template <int LEVEL>
struct Quick {
  static __device__ inline void sums(Feed& feed, Signs& signs, double (&out)[WIDTH]) {
    double other[WIDTH];
    Quick<LEVEL - 1>::sums(feed, signs, out);
    Quick<LEVEL - 1>::sums(feed, signs, other);
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      out[k] += other[k];
      collect<LEVEL>(signs, k, upper_half(out[k]));
    }
  }
};

template <>
struct Quick<2> {
  static __device__ inline void sums(Feed& feed, Signs& signs, double (&out)[WIDTH]) {
    Pack rows[4];
    feed.four(rows);
#if KIND >= 3
    if (WANTED & 1) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < WIDTH / 2; ++j) {
          const unsigned int two = words_of(rows[i])[j];
          signs.two_negative[j] = count_two(signs.two_negative[j], below_zero(two));
          signs.two_positive[j] = count_two(signs.two_positive[j], above_zero(two));
        }
      }
    }
#endif
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      double pair[2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#if KIND == 2
        const float x = rows[i].at[k] + 0.0f;  // −0 becomes 0
        collect<0>(signs, k, float_bits(x));
#else
        float x = one_of_words(words_of(rows[i]), k);
        if (i % 2) x += 0.0f;  // −0 becomes 0, so that no sum is −0
#endif
        pair[i / 2] = i % 2 ? pair[i / 2] + (double)x : (double)x;
      }
      collect<1>(signs, k, upper_half(pair[0]));
      collect<1>(signs, k, upper_half(pair[1]));
      out[k] = pair[0] + pair[1];
      collect<2>(signs, k, upper_half(out[k]));
    }
  }
};

template <int SIZE, int LEVEL>
struct Settle {  // add the bits of all wanted sizes to the counts
  static __device__ inline void into(Tally& tally, const Signs& signs, int k) {
    if constexpr (LEVEL < DEPTH) {
#if KIND >= 3
      if constexpr (LEVEL == 0 && (WANTED & 1)) {
        tally.negative[0][k] += one_of_two(signs.two_negative[k / 2], k % 2);
        tally.positive[0][k] += one_of_two(signs.two_positive[k / 2], k % 2);
      } else
#endif
      if constexpr ((WANTED >> LEVEL) & 1) {
        tally.negative[SIZE][k] += bits_in(signs.negative[SIZE][k]);
        tally.positive[SIZE][k] += (GROUP >> LEVEL) - bits_in(signs.not_positive[SIZE][k]);
      }
      Settle<SIZE + ((WANTED >> LEVEL) & 1), LEVEL + 1>::into(tally, signs, k);
    }
  }
};

__device__ inline int count_short(const Rows& rows, int at, int end, Pack* slots, Tally& tally) {
  const int last = at + (end - at) / GROUP * GROUP;
  Feed feed = {slots, rows, at, last, 0};
  double total[WIDTH] = {};
#pragma unroll
  for (int i = 0; i < STAGES; ++i) feed.ask();
  for (; at < last; at += GROUP) {
    Signs signs = {};
    for (int done = 0; done < GROUP; done += 1 << TOP) {
      double sum[WIDTH];
      Quick<TOP>::sums(feed, signs, sum);
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) {
        const double size = magnitude(sum[k]);
        if (size > 0.0 && size < tally.nearest[k]) tally.nearest[k] = size;
        total[k] += sum[k];  // finite where all of them are: numbers of single precision do not overflow here
      }
    }
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) Settle<0, 0>::into(tally, signs, k);
  }
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) tally.bad |= !(magnitude(total[k]) < INFINITE);
  return at;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) count_signs(
    const Value* X, long long n_columns, long long of_all, const long long* places, const int* offsets, int n_leaves,
    int at_once, const double* null, int* positive, int* negative, unsigned long long* nearest, int* present,
    int* missing, int* bad) {
  const long long base = (long long)blockIdx.x * blockDim.x * WIDTH;
  const size_t apart = VECTOR ? 1 : blockDim.x;
  const long long first = base + (VECTOR ? (long long)threadIdx.x * WIDTH : threadIdx.x);
  if (first >= n_columns) return;
  Rows rows = {(const char*)(X + first), places, offsets, apart, 0};
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    const bool exists = first + (long long)(k * apart) < n_columns;
    rows.width += exists;
  }
  Tally tally = {};
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    tally.nearest[k] = INFINITE;
#if SHIFTED
    tally.null[k] = k < rows.width ? null[first + k * apart] : 0.0;
#endif
  }

  constexpr int TOGETHER = 1 << TOP;
  int at = blockIdx.y * at_once;
  const int end = at + at_once < n_leaves ? at + at_once : n_leaves;
#if SHORT
  __shared__ Pack slots[STAGES * 4 * THREADS];
  at = count_short(rows, at, end, slots + threadIdx.x, tally);
#endif
  for (; at + TOGETHER <= end; at += TOGETHER) look_at_top(tally, Bucket<TOP>::whole(rows, at, tally));
#if !RUNS && !GAPS && !SHIFTED
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) tally.nearest[k] /= TOGETHER;
#endif
  if (at < end) {  // a last bucket of fewer leaves
    Node node = Bucket<TOP>::part(rows, at, end, tally);
#if !RUNS && !GAPS && !SHIFTED
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) node.sum[k] /= node.rows;
#endif
    look_at_top(tally, node);
  }

#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    if (k >= rows.width) continue;
    const size_t column = first + k * apart;
#pragma unroll
    for (int size = 0; size < SIZES; ++size) {
      atomicAdd(positive + (size_t)size * of_all + column, tally.positive[size][k]);
      atomicAdd(negative + (size_t)size * of_all + column, tally.negative[size][k]);
#if GAPS
      atomicAdd(present + (size_t)size * of_all + column, tally.present[size][k]);
#endif
    }
#if GAPS
    atomicAdd(missing + column, tally.missing[k]);
#endif
    if (tally.nearest[k] < INFINITE) atomicMin(nearest + column, bits_of(tally.nearest[k]));
  }
  if (tally.bad) *bad = 1;
}
