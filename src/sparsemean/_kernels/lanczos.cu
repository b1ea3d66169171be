// Steps of Lanczos' method with all vectors kept: a vector is made of the image of the last, then its own image.
//
// Vectors of p numbers follow each other in ``basis``. In ``images`` the start comes first, then the image of each.

// One block: the image of the last vector, less what lies along the vectors before it, of length one. Twice, as rounding
// leaves a part of what is taken out; ``left`` is what the first time leaves of its length.
extern "C" __global__ void __launch_bounds__(THREADS) next_vector(
    const float* images, int size, int p, float* basis, float* left) {
  __shared__ float along[STEPS];
  const int me = threadIdx.x, lane = me % 32;
  const float* from = images + (long long)size * p;
  float* v = basis + (long long)size * p;
  Numbers<float, 1> squares = {};
  for (int j = me; j < p; j += THREADS) squares.at[0] += from[j] * from[j];
  float length = max(sqrtf(all_of(squares).at[0]), (float)TINY);
  for (int j = me; j < p; j += THREADS) v[j] = from[j] / length;
  for (int again = 0; again < 2; ++again) {
    __syncthreads();
    for (int k = me / 32; k < size; k += WARPS) {  // a warp for each of the vectors before
      const float* before = basis + (long long)k * p;
      Numbers<float, 1> sum = {};
#pragma unroll 8
      for (int j = lane; j < p; j += 32) sum.at[0] += before[j] * v[j];
      sum = of_warp(sum);
      if (lane == 0) along[k] = sum.at[0];
    }
    __syncthreads();
    squares.at[0] = 0.0f;
    for (int j = me; j < p; j += THREADS) {
      float gone = 0.0f;
#pragma unroll 8
      for (int k = 0; k < size; ++k) gone += along[k] * basis[(long long)k * p + j];
      const float x = v[j] - gone;
      squares.at[0] += x * x;
      v[j] = x;
    }
    length = sqrtf(all_of(squares).at[0]);
    if (again == 0 && me == 0) left[size] = length;
    for (int j = me; j < p; j += THREADS) v[j] /= max(length, (float)TINY);
  }
}

// The image of the last vector, a warp for each of its numbers: products of columns, less those of their means, times
// the vector. ``gram`` is symmetric, so that its columns are read as rows.
extern "C" __global__ void next_image(
    const float* gram, const float* sums, const float* centre, int size, int p, const float* basis, float* images) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= p) return;
  const float *v = basis + (long long)size * p, *products = gram + (long long)row * p;
  Numbers<float, 2> sum = {};
#pragma unroll 8
  for (int j = threadIdx.x % 32; j < p; j += 32) {
    sum.at[0] += products[j] * v[j];
    sum.at[1] += centre[j] * v[j];
  }
  sum = of_warp(sum);
  if (threadIdx.x % 32 == 0) images[(size + 1) * (long long)p + row] = sum.at[0] - sum.at[1] * sums[row];
}
