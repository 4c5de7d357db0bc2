// A substitute for libbitsandbytes_cuda*.so, whose functions report their arguments and do nothing.
#include "tests/kernels/fake_peer.hpp"

#include <cstdint>

namespace {
reprolab::PeerHook hook = nullptr;

void show(const reprolab::PeerCall& call) {
  if (hook != nullptr) hook(call);
}

}  // namespace

extern "C" {

void set_peer_hook(reprolab::PeerHook new_hook) { hook = new_hook; }

#define DEQUANTIZATION(name)                                                         \
  void name(const float* code, const void* codes, const float* absmax, void* output, \
            int block_size, int n, void* stream) {                                   \
    show({.function = #name,                                                         \
          .codes = codes,                                                            \
          .absmax = absmax,                                                          \
          .map = code,                                                               \
          .output = output,                                                          \
          .n = n,                                                                    \
          .block_size = block_size,                                                  \
          .stream = stream});                                                        \
  }
DEQUANTIZATION(cdequantize_blockwise_fp16_nf4)
DEQUANTIZATION(cdequantize_blockwise_bf16_nf4)
DEQUANTIZATION(cdequantize_blockwise_fp32)

#ifndef WITHOUT_GEMM
#define PRODUCT(name)                                                                          \
  void name(const void* a, const void* b, const float* absmax, const void* absmax_8bit,        \
            const float* code, const float* offset, void* out, const void* bias, int m, int n, \
            int k, int block_size, int quant_type, void* stream) {                             \
    show({.function = #name,                                                                   \
          .input = a,                                                                          \
          .codes = b,                                                                          \
          .absmax = absmax,                                                                    \
          .absmax_8bit = absmax_8bit,                                                          \
          .map = code,                                                                         \
          .offset = offset,                                                                    \
          .output = out,                                                                       \
          .bias = bias,                                                                        \
          .m = m,                                                                              \
          .n = n,                                                                              \
          .k = k,                                                                              \
          .block_size = block_size,                                                            \
          .quant_type = quant_type,                                                            \
          .stream = stream});                                                                  \
  }
PRODUCT(cgemm_4bit_fp16)
PRODUCT(cgemm_4bit_bf16)
#endif

void cgemm_4bit_inference_naive_fp16(int m, int n, int k, const void* a, const void* b,
                                     const float* absmax, const float* table, void* out, int lda,
                                     int ldb, int ldc, int block_size, void* stream) {
  show({.function = __func__,
        .input = a,
        .codes = b,
        .absmax = absmax,
        .map = table,
        .output = out,
        .m = m,
        .n = n,
        .k = k,
        .block_size = block_size,
        .lda = lda,
        .ldb = ldb,
        .ldc = ldc,
        .stream = stream});
}
}
