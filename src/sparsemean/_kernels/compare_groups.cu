// Two groups of rows, compared in every column where it lies: a block a column, no column is sorted as a whole.
//
// As many values as there are threads are sorted and part the others into buckets: those equal to one of them, and those
// between two. Then every value knows all but its own bucket, in which it is compared with each of the few others.
// Many ties are no harder than none: values that are frequent are among the sorted ones.
//
// SIZE is that of a value in bytes, ROWS is a multiple of THREADS and at least the number of rows.
// Values are read as the integers that they lie as: CuPy has kernels compiled so that arithmetic takes the smallest
// numbers of single precision for zero.
#if SIZE == 8
typedef double Value;
typedef unsigned long long Key;
#define SIGN 0x8000000000000000ull
#define INFINITE_KEY 0xfff0000000000000ull  // of infinity, see key_of
#else
typedef float Value;
typedef unsigned int Key;
#define SIGN 0x80000000u
#define INFINITE_KEY 0xff800000u
#endif
#define EACH (ROWS / THREADS)
#define BUCKETS (2 * THREADS + 1)
#define NO_BUCKET 0xffff
#define EXPONENTS 2048
#define FIRST(two) ((int)((two) & 0xffffu))  // of two counts in one word: of the first group and of the second
#define SECOND(two) ((int)((two) >> 16))
#define BOTH(two) (FIRST(two) + SECOND(two))

// The bits of what a value is rounded to, as kernels/rounding.py has it: ``grid`` begins with the least number that is, the
// first beyond, and the whole number of one digit too many; then three tables by exponent.
__device__ inline Key snapped(Key bits, const double* grid) {
  union { Key bits; Value value; } one = {bits};
  const double x = one.value, size = x < 0.0 ? -x : x;
  if (!(size >= grid[0] && size < grid[1])) return bits;
  union { double value; unsigned long long bits; } wide = {size};
  const double* at = grid + 3 + (wide.bits >> 52);
  const double power = size >= at[0] ? at[2 * EXPONENTS] : at[EXPONENTS], whole = rint(x * power);
  const double out = whole == grid[2] ? at[0] : whole == -grid[2] ? -at[0] : whole / power;
  one.value = (Value)out;
  return one.bits;
}

// An integer that sorts as the value does; zeros of both signs are one.
__device__ inline Key key_of(Key bits) { return bits > SIGN ? ~bits : bits | SIGN; }

// Sort one key of each thread into ``room``, which all may read after the next barrier.
__device__ inline void sort_keys(Key mine, Key* room) {
  const int me = threadIdx.x;
  for (int size = 2; size <= THREADS; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      Key other;
      if (apart >= 32) {
        __syncthreads();
        room[me] = mine;
        __syncthreads();
        other = room[me ^ apart];
      } else {
        other = __shfl_xor_sync(WHOLE_WARP, mine, apart);
      }
      const bool rising = (me & size) == 0, lower = (me & apart) == 0;
      mine = (rising == lower) == (other < mine) ? other : mine;
    }
  __syncthreads();  // some may still be reading
  room[me] = mine;
}

// What comes before each thread's number.
__device__ inline unsigned int sum_before(unsigned int mine) {
  __shared__ unsigned int of_warps[WARPS];
  unsigned int through = mine;
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const unsigned int other = __shfl_up_sync(WHOLE_WARP, through, lanes);
    if (threadIdx.x % 32 >= lanes) through += other;
  }
  if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = through;
  __syncthreads();
  for (int k = 0; k < threadIdx.x / 32; ++k) through += of_warps[k];
  return through - mine;
}

// Twelve counts of each column: values, positive and negative ones of either group; wins and ties of the first among
// positive values and among negative ones; and how many values repeat others, among positive and negative ones.
// ``groups`` is 0 or 1, or 2 for a row that is not compared.
extern "C" __global__ void __launch_bounds__(THREADS) compare_groups(
    const Key* X, long long step, int n, const unsigned char* groups, const double* grid, int gaps, int* counts,
    int* bad) {
  __shared__ Key parting[THREADS], members[ROWS];
  __shared__ unsigned short buckets[ROWS];
  __shared__ unsigned int held[BUCKETS], before[BUCKETS];
  const Key* column = X + blockIdx.x;
  const int me = threadIdx.x;
  for (int k = me; k < BUCKETS; k += THREADS) held[k] = 0;

  sort_keys(key_of(snapped(column[(long long)me * n / THREADS * step], grid)), parting);

  Key keys[EACH];
  unsigned int places[EACH];  // bucket, place among those of its group there; the group
  Numbers<unsigned int, 3> found = {};  // values, positive and negative ones, both groups in a word
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int row = me + k * THREADS;
    keys[k] = key_of(row < n ? snapped(column[row * step], grid) : 0);
  }
  __syncthreads();
  bool odd = false;
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int row = me + k * THREADS, group = row < n ? groups[row] : 2;
    const Key key = keys[k];
    const bool missing = key > INFINITE_KEY || key < ~INFINITE_KEY;
    odd |= missing ? !gaps : key == INFINITE_KEY || key == ~INFINITE_KEY;
    places[k] = NO_BUCKET;
    if (group == 2 || missing) continue;
    const unsigned int one = group ? 1u << 16 : 1u;
    found.at[0] += one;
    if (key == SIGN) continue;
    found.at[1] += key > SIGN ? one : 0;
    found.at[2] += key < SIGN ? one : 0;
    int at = 0;
#pragma unroll
    for (int half = THREADS / 2; half > 0; half /= 2) at += parting[at + half - 1] < key ? half : 0;
    at += parting[at] < key;
    const int bucket = 2 * at + (at < THREADS && parting[at] == key);
    const unsigned int earlier = atomicAdd(held + bucket, one);
    places[k] = bucket | (group ? SECOND(earlier) : FIRST(earlier)) << 16 | (unsigned int)group << 31;
  }
  __syncthreads();
  const unsigned int two = held[2 * me] + held[2 * me + 1], so_far = sum_before(two);
  before[2 * me] = so_far;
  before[2 * me + 1] = so_far + held[2 * me];
  if (me == THREADS - 1) before[2 * THREADS] = so_far + two;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int bucket = places[k] & 0xffff;
    if (bucket == NO_BUCKET) continue;
    const int group = places[k] >> 31, place = places[k] >> 16 & 0x7fff;
    const int slot = BOTH(before[bucket]) + (group ? FIRST(held[bucket]) : 0) + place;
    members[slot] = keys[k];
    buckets[slot] = bucket;
  }
  __syncthreads();

  const int total = BOTH(before[2 * THREADS]) + BOTH(held[2 * THREADS]);
  Numbers<int, 6> pairs = {};  // wins, ties and repeats among positive values, then among negative ones
  for (int slot = me; slot < total; slot += THREADS) {
    const Key key = members[slot];
    const int bucket = buckets[slot];
    const int first = BOTH(before[bucket]), middle = first + FIRST(held[bucket]), last = first + BOTH(held[bucket]);
    int less = 0, equal = bucket % 2 ? last - middle : 0;
    bool again = bucket % 2 && slot > first;
    if (bucket % 2 == 0) {
      for (int k = first; k < middle; ++k) again |= members[k] == key && k < slot;
      for (int k = middle; k < last; ++k) {
        less += members[k] < key;
        equal += members[k] == key;
        again |= members[k] == key && k < slot;
      }
    }
    const bool positive = key > SIGN, of_first = slot < middle;
    const int wins = of_first ? SECOND(before[bucket]) + less : 0, ties = of_first ? equal : 0;
    pairs.at[0] += positive ? wins : 0;
    pairs.at[1] += positive ? ties : 0;
    pairs.at[2] += positive && again;
    pairs.at[3] += positive ? 0 : wins;
    pairs.at[4] += positive ? 0 : ties;
    pairs.at[5] += !positive && again;
  }
  found = all_of(found);
  pairs = all_of(pairs);
  if (odd) *bad = 1;
  if (me > 0) return;
  // Negative values of the second group lie below every positive one of the first, but are not compared with them.
  const int apart = FIRST(found.at[1]) * SECOND(found.at[2]);
  const int out[12] = {
      FIRST(found.at[0]), SECOND(found.at[0]), FIRST(found.at[1]), SECOND(found.at[1]), FIRST(found.at[2]),
      SECOND(found.at[2]), pairs.at[0] - apart, pairs.at[1], pairs.at[3], pairs.at[4], pairs.at[2], pairs.at[5]};
#pragma unroll
  for (int k = 0; k < 12; ++k) counts[k * (size_t)gridDim.x + blockIdx.x] = out[k];
}
