// A substitute for libreprolab_nf4.so without a GPU. It computes products on the CPU, in one thread
// and in the order of the inputs, so that all calls give the same bits, and counts calls.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "reference/nf4/nf4.hpp"

namespace {

struct Bf16 {
  std::uint16_t bits;
  operator float() const {
    const std::uint32_t whole = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &whole, 4);
    return value;
  }
  static Bf16 of(float value) {
    std::uint32_t whole;
    std::memcpy(&whole, &value, 4);
    return {static_cast<std::uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16)};
  }
};
struct Fp16 {
  _Float16 value;
  operator float() const { return static_cast<float>(value); }
  static Fp16 of(float value) { return {static_cast<_Float16>(value)}; }
};

struct Weights {
  const unsigned char* codes;
  const float* absmax;
  const unsigned char* scale_codes;
  const float* map;
  float offset;
  const void* bias;
  std::int64_t m, n, k;
  int block_size, second_block_size;
};

float scale_of(const Weights& w, std::int64_t block) {
  if (w.scale_codes == nullptr) return w.absmax[block];
  return w.map[w.scale_codes[block]] * w.absmax[block / w.second_block_size] + w.offset;
}

template <class T>
void compute(const Weights& w, const void* input, void* output) {
  const auto* const x = static_cast<const T*>(input);
  for (std::int64_t i = 0; i < w.m; ++i) {
    for (std::int64_t j = 0; j < w.n; ++j) {
      float sum = w.bias == nullptr ? 0.0f : static_cast<const T*>(w.bias)[j];
      for (std::int64_t l = 0; l < w.k; ++l) {
        const std::int64_t index = j * w.k + l;
        const int code = w.codes[index / 2] >> (index % 2 == 0 ? 4 : 0) & 15;
        sum += reprolab::reference::standard_table[code] * scale_of(w, index / w.block_size) *
               x[i * w.k + l];
      }
      static_cast<T*>(output)[i * w.n + j] = T::of(sum);
    }
  }
}

std::atomic<int> multiplied, ran, refused, alive, settled;
std::atomic<int> next_error;
void *last_workspace, *last_stream;

bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

}  // namespace

struct reprolab_nf4_plan {
  Weights weights;
  bool is_bf16;
};

extern "C" {

// Functions by which tests set and read the library's state.
int times_multiplied() { return multiplied; }
int times_run() { return ran; }
int times_refused() { return refused; }
int plans_alive() { return alive; }
int runs_of_settled_weights() { return settled; }
void* workspace_of_last_run() { return last_workspace; }
void* stream_of_last_run() { return last_stream; }
void fail_next_run(int error) { next_error = error; }

int reprolab_nf4_use(const char*) { return 0; }
const char* reprolab_nf4_kernels() { return "streaming"; }
const char* reprolab_nf4_products() { return "few_rows\nmany_rows\nfew_rows_exact"; }
const char* reprolab_nf4_exact_products() { return "few_rows_exact"; }
const char* reprolab_nf4_build() { return "13.0.88\n90"; }
const char* reprolab_nf4_error() { return "refused"; }
#define DEQUANTIZE(name, type)                                                                  \
  int name(const float*, const unsigned char* A, const float* absmax, void* out, int blocksize, \
           int n, void*) {                                                                      \
    for (int i = 0; i < n; ++i) {                                                               \
      const int code = A[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;                                   \
      static_cast<type*>(out)[i] =                                                              \
          type::of(reprolab::reference::standard_table[code] * absmax[i / blocksize]);          \
    }                                                                                           \
    return 0;                                                                                   \
  }
DEQUANTIZE(cdequantize_blockwise_fp16_nf4, Fp16)
DEQUANTIZE(cdequantize_blockwise_bf16_nf4, Bf16)

// The kernel many_rows has a workspace.
int reprolab_nf4_workspace(const char* kernel, std::int64_t m, std::int64_t n, std::int64_t, int,
                           std::uint64_t* bytes) {
  *bytes = std::strcmp(kernel, "many_rows") == 0 ? 4 * m * n : 0;
  return 0;
}

int reprolab_nf4_multiply(const char*, int is_bf16, const void* A, const unsigned char* B,
                          const float* absmax, const unsigned char* absmax_codes,
                          const float* code2, float offset, const void* bias, void* out,
                          std::int64_t m, std::int64_t n, std::int64_t k, int blocksize,
                          int blocksize2, int weights_ready, void*, void*) {
  if (!is_aligned(A) || !is_aligned(B)) return 1;
  ++multiplied, settled += weights_ready;
  const Weights weights{B, absmax, absmax_codes, code2,     offset, bias, m,
                        n, k,      blocksize,    blocksize2};
  is_bf16 != 0 ? compute<Bf16>(weights, A, out) : compute<Fp16>(weights, A, out);
  return 0;
}

int reprolab_nf4_make_plan(const char* kernel, int is_bf16, const unsigned char* B,
                           const float* absmax, const unsigned char* absmax_codes,
                           const float* code2, float offset, const void* bias, std::int64_t m,
                           std::int64_t n, std::int64_t k, int blocksize, int blocksize2,
                           reprolab_nf4_plan** plan, std::uint64_t* bytes) {
  if (std::strcmp(kernel, "refused") == 0) return 801;
  ++alive;
  *plan = new reprolab_nf4_plan{
      {B, absmax, absmax_codes, code2, offset, bias, m, n, k, blocksize, blocksize2}, is_bf16 != 0};
  return reprolab_nf4_workspace(kernel, m, n, k, blocksize, bytes);
}

int reprolab_nf4_run(const reprolab_nf4_plan* plan, const void* A, void* out, int weights_ready,
                     void* workspace, void* stream) {
  if (const int error = next_error.exchange(0)) return error;
  if (!is_aligned(A)) return ++refused, 1;
  ++ran, settled += weights_ready;
  last_workspace = workspace, last_stream = stream;
  if (workspace != nullptr) std::memset(workspace, 0xff, 4 * plan->weights.m * plan->weights.n);
  plan->is_bf16 ? compute<Bf16>(plan->weights, A, out) : compute<Fp16>(plan->weights, A, out);
  return 0;
}
int reprolab_nf4_forget(reprolab_nf4_plan* plan) {
  --alive;
  delete plan;
  return 0;
}
}
