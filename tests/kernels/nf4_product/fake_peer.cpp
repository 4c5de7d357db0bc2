// Stands in for libbitsandbytes_cuda*.so: its products report their arguments and do nothing.
#include "tests/kernels/nf4_product/fake_peer.hpp"

namespace {
reprolab::ProductHook hook = nullptr;

void show(const reprolab::ProductCall& call) {
  if (hook != nullptr) hook(call);
}

[[maybe_unused]] void show_gemm(char type, const void* a, const void* b, const float* absmax,
                                const void* absmax_8bit, const float* code, const float* offset,
                                void* out, const void* bias, int m, int n, int k, int block_size,
                                int quant_type, void* stream) {
  show({.kind = "gemm",
        .type = type,
        .input = a,
        .codes = b,
        .absmax = absmax,
        .absmax_8bit = absmax_8bit,
        .map = code,
        .offset = offset,
        .output = out,
        .bias = bias,
        .m = m,
        .n = n,
        .k = k,
        .block_size = block_size,
        .quant_type = quant_type,
        .stream = stream});
}

void show_gemv(char type, int m, int n, int k, const void* a, const void* b, const float* absmax,
               const float* table, void* out, int lda, int ldb, int ldc, int block_size,
               void* stream) {
  show({.kind = "gemv",
        .type = type,
        .input = a,
        .codes = b,
        .absmax = absmax,
        .map = table,
        .output = out,
        .m = n,
        .n = m,
        .k = k,
        .block_size = block_size,
        .lda = lda,
        .ldb = ldb,
        .ldc = ldc,
        .stream = stream});
}
}  // namespace

extern "C" {

void set_product_hook(reprolab::ProductHook new_hook) { hook = new_hook; }

#ifndef WITHOUT_GEMM
void cgemm_4bit_fp16(const void* a, const void* b, const float* absmax, const void* absmax_8bit,
                     const float* code, const float* offset, void* out, const void* bias, int m,
                     int n, int k, int block_size, int quant_type, void* stream) {
  show_gemm('h', a, b, absmax, absmax_8bit, code, offset, out, bias, m, n, k, block_size,
            quant_type, stream);
}

void cgemm_4bit_bf16(const void* a, const void* b, const float* absmax, const void* absmax_8bit,
                     const float* code, const float* offset, void* out, const void* bias, int m,
                     int n, int k, int block_size, int quant_type, void* stream) {
  show_gemm('b', a, b, absmax, absmax_8bit, code, offset, out, bias, m, n, k, block_size,
            quant_type, stream);
}
#endif

void cgemm_4bit_inference_naive_fp16(int m, int n, int k, const void* a, const void* b,
                                     const float* absmax, const float* table, void* out, int lda,
                                     int ldb, int ldc, int block_size, void* stream) {
  show_gemv('h', m, n, k, a, b, absmax, table, out, lda, ldb, ldc, block_size, stream);
}
}
