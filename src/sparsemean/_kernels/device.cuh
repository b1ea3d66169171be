// What count_signs.cu asks of a device; the tests answer the same for an ordinary compiler.
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

__device__ inline double magnitude(double x) { return fabs(x); }
__device__ inline unsigned long long bits_of(double x) { return (unsigned long long)__double_as_longlong(x); }
__device__ inline float bits_to_float(unsigned int x) { return __uint_as_float(x); }
__device__ inline float half_to_float(unsigned short x) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x));
  return out;
}

__device__ inline int float_bits(float x) { return __float_as_int(x); }
// Of a sum of numbers of single precision the upper half is zero only where the sum is.
__device__ inline int upper_half(double x) { return __double2hiint(x); }
__device__ inline unsigned int push_sign(unsigned int word, int x) { return __funnelshift_l(x, word, 1); }
__device__ inline int bits_in(unsigned int word) { return __popc(word); }

// Two values of 16 bits in a word: whether each is above or below zero, as 1 or 0 of their own kind, and how many were.
#if KIND >= 3
#if KIND == 3
#define TWO "f16x2"
#define ONE 0x3c003c00u
#else
#define TWO "bf16x2"
#define ONE 0x3f803f80u
#endif
#if KIND == 3 || __CUDA_ARCH__ >= 900
__device__ inline unsigned int above_zero(unsigned int x) {
  unsigned int out;
  asm("set.gt." TWO "." TWO " %0, %1, %2;" : "=r"(out) : "r"(x), "r"(0u));
  return out;
}
__device__ inline unsigned int below_zero(unsigned int x) {
  unsigned int out;
  asm("set.lt." TWO "." TWO " %0, %1, %2;" : "=r"(out) : "r"(x), "r"(0u));
  return out;
}
#else
__device__ inline unsigned int above_zero(unsigned int x) {
  return (bits_to_float(x << 16) > 0.0f ? 0x3f80u : 0u) | (bits_to_float(x & 0xffff0000u) > 0.0f ? 0x3f800000u : 0u);
}
__device__ inline unsigned int below_zero(unsigned int x) { return above_zero(x ^ 0x80008000u); }
#endif
__device__ inline unsigned int count_two(unsigned int count, unsigned int more) {
  unsigned int out;
  asm("fma.rn." TWO " %0, %1, %2, %3;" : "=r"(out) : "r"(more), "r"(ONE), "r"(count));
  return out;
}
__device__ inline int one_of_two(unsigned int count, int which) {
#if KIND == 3
  return (int)half_to_float((unsigned short)(count >> (16 * which)));
#else
  return (int)bits_to_float(which ? count & 0xffff0000u : count << 16);
#endif
}
#endif

// Copies that go on while the thread does; each thread waits for its own.
template <int BYTES>
__device__ inline void copy_in(void* to, const void* from) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(BYTES) : "memory");
}
__device__ inline void asked() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
__device__ inline void await() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
