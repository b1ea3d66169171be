// What an ordinary compiler needs to run the kernels, one thread after the other; in place of device.cuh.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <ucontext.h>

#ifndef KIND
#define KIND 2
#endif
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define INFINITE ((double)INFINITY)

template <typename T>
static T max(T a, T b) { return a < b ? b : a; }
template <typename T>
static T min(T a, T b) { return b < a ? b : a; }

struct Dimensions { int x, y; };
static Dimensions blockIdx, threadIdx, blockDim, gridDim;

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

static double __dadd_rn(double a, double b) { return a + b; }

// Threads that wait for each other take turns. Those of a warp go on together until all of them are at a barrier; then
// the next warp does: what one warp writes too early is there before another reads.
static const int MOST_THREADS = 1024, STACK = 1 << 16;
static jmp_buf in_turn, threads[MOST_THREADS];
static ucontext_t beginning;
static char stacks[MOST_THREADS][STACK] __attribute__((aligned(16)));
static int arrived, barriers, left;
static bool at_barrier[MOST_THREADS], begun[MOST_THREADS], ended[MOST_THREADS];
static void (*body)(void*);
static void* of_block;

// Only a beginning needs a context: jumps ask nothing of the kernel of the system, and there are millions of them.
static void wait_a_turn() { if (!_setjmp(threads[threadIdx.x])) _longjmp(in_turn, 1); }
static void whole_thread() {
  body(of_block);
  --left;
  ended[threadIdx.x] = true;
  for (;;) wait_a_turn();
}
static void begin() {
  begun[threadIdx.x] = true;
  getcontext(&beginning);
  beginning.uc_stack.ss_sp = stacks[threadIdx.x];
  beginning.uc_stack.ss_size = STACK;
  makecontext(&beginning, whole_thread, 0);
  setcontext(&beginning);
}
static void take_a_turn() {
  if (_setjmp(in_turn)) return;
  if (begun[threadIdx.x]) _longjmp(threads[threadIdx.x], 1);
  begin();
}
template <typename Kernel>
static void together(Kernel kernel) {
  body = [](void* of_block) { (*(Kernel*)of_block)(); };
  of_block = &kernel;
  left = blockDim.x;
  for (int k = 0; k < blockDim.x; ++k) at_barrier[k] = begun[k] = ended[k] = false;
  for (int first = 0; left; first = (first + 32) % blockDim.x)
    for (bool going = true; going;) {
      going = false;
      const int last = min(first + 32, blockDim.x);
      for (threadIdx.x = first; threadIdx.x < last; ++threadIdx.x) take_a_turn();
      for (int k = first; k < last; ++k) going |= !at_barrier[k] && !ended[k];
    }
}
static void __syncthreads() {
  const int before = barriers;
  if (++arrived == blockDim.x) arrived = 0, ++barriers;
  for (at_barrier[threadIdx.x] = true; barriers == before;) wait_a_turn();
  at_barrier[threadIdx.x] = false;
}
template <typename T>
static T of_lane(T x, int lane) {
  static T shown[2][MOST_THREADS];  // by turns: what was shown before may still be looked at
  static int turn[MOST_THREADS];
  const int me = threadIdx.x, now = turn[me] ^= 1;
  shown[now][me] = x;
  wait_a_turn();
  return shown[now][me / 32 * 32 + lane];
}
template <typename T>
static T __shfl_xor_sync(unsigned int, T x, int lanes) { return of_lane(x, threadIdx.x % 32 ^ lanes); }
template <typename T>
static T __shfl_up_sync(unsigned int, T x, int lanes) { return of_lane(x, max(threadIdx.x % 32 - lanes, 0)); }

template <typename T>
static T atomicAdd(T* at, T more) { return (*at += more) - more; }
static void __threadfence() {}
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
