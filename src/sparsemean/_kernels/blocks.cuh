// A block of threads that works together on one column.
#define WARPS (THREADS / 32)
#define WHOLE_WARP 0xffffffffu
#ifndef INFINITE
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#endif

// Every thread gets what all of its warp have, joined in one and the same order.
template <typename Part>
__device__ inline Part of_warp(Part x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) join(x, across(x, lanes));
  return x;
}

// The same of the whole block.
template <typename Part>
__device__ inline Part all_of(Part x) {
  __shared__ Part of_warps[WARPS];
  x = of_warp(x);
  __syncthreads();  // the last one may still be being read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = of_warps[0];
  for (int k = 1; k < WARPS; ++k) join(x, of_warps[k]);
  return x;
}

// N numbers to be added up.
template <typename Number, int N>
struct Numbers {
  Number at[N];
};
template <typename Number, int N>
__device__ inline void join(Numbers<Number, N>& a, const Numbers<Number, N>& b) {
#pragma unroll
  for (int k = 0; k < N; ++k) a.at[k] += b.at[k];
}
template <typename Number, int N>
__device__ inline Numbers<Number, N> across(const Numbers<Number, N>& x, int lanes) {
  Numbers<Number, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.at[k] = __shfl_xor_sync(WHOLE_WARP, x.at[k], lanes);
  return out;
}
