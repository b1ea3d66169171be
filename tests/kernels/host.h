// What an ordinary compiler needs to run the kernels, one thread after the other, in place of device.cuh.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#ifndef KIND
#define KIND 2
#endif
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define INFINITE ((double)INFINITY)

struct Dimensions { int x, y; };
static Dimensions blockIdx, threadIdx, blockDim, gridDim;

// The threads of a block where they wait for each other: each has a stack of its own and goes on in its turn.
struct Block {
  static constexpr int STACK = 1 << 16;
  std::vector<char> stacks;
  std::vector<ucontext_t> threads;
  std::vector<char> ended;
  std::function<void()> body;
  ucontext_t outside;
};
static Block block;
static void run_thread() {
  block.body();
  block.ended[threadIdx.x] = 1;
}
static void __syncthreads() { swapcontext(&block.threads[threadIdx.x], &block.outside); }
static void run_block(std::function<void()> body) {
  const int n = blockDim.x;
  block.body = body;
  block.stacks.resize((size_t)n * Block::STACK);
  block.threads.resize(n);
  block.ended.assign(n, 0);
  for (int i = 0; i < n; ++i) {
    getcontext(&block.threads[i]);
    block.threads[i].uc_stack.ss_sp = block.stacks.data() + (size_t)i * Block::STACK;
    block.threads[i].uc_stack.ss_size = Block::STACK;
    block.threads[i].uc_link = &block.outside;
    makecontext(&block.threads[i], run_thread, 0);
  }
  for (bool all = false; !all;) {
    all = true;
    for (int i = 0; i < n; ++i) {
      if (block.ended[i]) continue;
      threadIdx.x = i;
      swapcontext(&block.outside, &block.threads[i]);
      all = all && block.ended[i];
    }
  }
}
static void __threadfence() {}

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

static int atomicAdd(int* at, int more) { return (*at += more) - more; }
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
