// What an ordinary compiler needs to run count_signs.cu, one thread after the other, in place of device.cuh.
#include <cmath>
#include <cstdint>
#include <cstring>

#ifndef KIND
#define KIND 2
#endif
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)
#define INFINITE ((double)INFINITY)

struct Dimensions { int x, y; };
static Dimensions blockIdx, threadIdx, blockDim;

template <typename To, typename From>
static To same_bits(From x) {
  To out;
  std::memcpy(&out, &x, sizeof(To));
  return out;
}
static double magnitude(double x) { return std::fabs(x); }
static unsigned long long bits_of(double x) { return same_bits<unsigned long long>(x); }
static float bits_to_float(unsigned int x) { return same_bits<float>(x); }
static float half_to_float(unsigned short x) { return (float)same_bits<_Float16>(x); }
static int float_bits(float x) { return same_bits<int>(x); }
static int upper_half(double x) { return (int)(bits_of(x) >> 32); }
static unsigned int push_sign(unsigned int word, int x) { return word << 1 | (unsigned int)x >> 31; }
static int bits_in(unsigned int word) { return __builtin_popcount(word); }

static void atomicAdd(int* at, int more) { *at += more; }
static void atomicMin(unsigned long long* at, unsigned long long x) { *at = x < *at ? x : *at; }

#if KIND >= 3
static float half_of(unsigned int two, int which) {
  const unsigned short x = (unsigned short)(two >> (16 * which));
  return KIND == 3 ? half_to_float(x) : bits_to_float((unsigned int)x << 16);
}
static unsigned int above_zero(unsigned int x) { return (half_of(x, 0) > 0) | (half_of(x, 1) > 0) << 16; }
static unsigned int below_zero(unsigned int x) { return (half_of(x, 0) < 0) | (half_of(x, 1) < 0) << 16; }
static unsigned int count_two(unsigned int count, unsigned int more) { return count + more; }
static int one_of_two(unsigned int count, int which) { return count >> (16 * which) & 0xffff; }
#endif

template <int BYTES>
static void copy_in(void* to, const void* from) { std::memcpy(to, from, BYTES); }
static void asked() {}
template <int LEFT>
static void await() {}
