// What is made of a few columns where they lie: bucket means of every level, and the skewness of groups of rows.
//
// ``kind`` is 1 for double, 2 for float, 3 for half precision, 4 for bfloat16. Rows and columns lie ``row_step`` and
// ``column_step`` bytes apart. Sums are taken in double precision in the order of kernels/reference.py.

struct Matrix {
  const char* start;
  int kind;
  long long row_step, column_step;
  const long long* columns;
  const double* null;  // of each of the columns, or none
  bool sizes;          // of what is left then, not its sign

  __device__ inline double at(long long row, int c) const {
    const char* place = start + row * row_step + columns[c] * column_step;
    double x;
    if (kind == 1) x = *(const double*)place;
    else if (kind == 2) x = (double)*(const float*)place;
    else if (kind == 3) x = (double)half_to_float(*(const unsigned short*)place);
    else x = (double)bits_to_float((unsigned int)*(const unsigned short*)place << 16);
    x = null ? x - null[c] : x;
    return sizes ? magnitude(x) : x;
  }
};

// Sums and means of the finest buckets, a row for each column.
extern "C" __global__ void leaf_means(
    const char* start, int kind, long long row_step, long long column_step, const long long* columns,
    const double* null, int many, int sizes, const long long* order, const int* offsets, int buckets, double* sums,
    double* means) {
  const Matrix X = {start, kind, row_step, column_step, columns, null, sizes != 0};
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (long long)many * buckets;
       i += (long long)gridDim.x * blockDim.x) {
    const int b = (int)(i / many), c = (int)(i % many);  // neighbours read neighbouring columns of one row
    const int first = offsets[b], last = offsets[b + 1];
    double sum = X.at(order[first], c);
    for (int j = first + 1; j < last; ++j) sum += X.at(order[j], c);
    sums[(long long)c * buckets + b] = sum;
    means[(long long)c * buckets + b] = sum / (double)(last - first);
  }
}

// The same of larger buckets, made of those one level below; ``rows`` of them are in each.
extern "C" __global__ void nested_means(
    const double* below, int buckets_below, const int* offsets, const double* rows, int many, int buckets,
    double* sums, double* means) {
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (long long)many * buckets;
       i += (long long)gridDim.x * blockDim.x) {
    const int c = (int)(i / buckets), b = (int)(i % buckets);
    const double* from = below + (long long)c * buckets_below;
    double sum = from[offsets[b]];
    for (int j = offsets[b] + 1; j < offsets[b + 1]; ++j) sum += from[j];
    sums[i] = sum;
    means[i] = sum / rows[b];
  }
}

// The sample skewness of groups of ``size`` rows, zero where all values are the same; see _stats/assumptions.py.
extern "C" __global__ void group_skewness(
    const char* start, int kind, long long row_step, long long column_step, const long long* columns,
    const double* null, int many, const long long* rows, int size, int groups, double* out) {
  const Matrix X = {start, kind, row_step, column_step, columns, null, false};
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (long long)many * groups;
       i += (long long)gridDim.x * blockDim.x) {
    const int g = (int)(i / many), c = (int)(i % many);
    const long long* of_group = rows + (long long)g * size;
    const double origin = X.at(of_group[0], c);
    double scale = 0.0, mean = 0.0, squares = 0.0, cubes = 0.0;
    for (int j = 0; j < size; ++j) {
      const double apart = magnitude(X.at(of_group[j], c) - origin);
      scale = apart > scale ? apart : scale;
    }
    scale = scale > 0.0 ? scale : 1.0;
    for (int j = 0; j < size; ++j) mean += (X.at(of_group[j], c) - origin) / scale;
    mean /= (double)size;
    for (int j = 0; j < size; ++j) {
      const double x = (X.at(of_group[j], c) - origin) / scale - mean, square = x * x;
      squares += square;
      cubes += square * x;
    }
    const double variance = squares / (double)size, cubed = variance * sqrt(variance);
    const double skewness = cubes / (double)size / (cubed > 0.0 ? cubed : 1.0);
    out[i] = skewness - skewness == 0.0 ? skewness : 0.0;
  }
}
