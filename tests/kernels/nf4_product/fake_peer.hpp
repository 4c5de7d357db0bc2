// What the fake peer records of its calls.
#pragma once

#include <string>

namespace reprolab {

/// The arguments of one call of bitsandbytes' C API, named as a product's are.
struct ProductCall {
  std::string kind{};  ///< "gemm" or "gemv".
  char type = 0;       ///< 'h' fp16, 'b' bf16.
  const void *input = nullptr, *codes = nullptr;
  const float* absmax = nullptr;
  const void* absmax_8bit = nullptr;
  const float *map = nullptr, *offset = nullptr;  ///< `map`: of gemv the 16 values.
  void* output = nullptr;
  const void* bias = nullptr;
  int m = 0, n = 0, k = 0, block_size = 0, quant_type = 0;
  int lda = 0, ldb = 0, ldc = 0;
  void* stream = nullptr;
};

using ProductHook = void (*)(const ProductCall&);

}  // namespace reprolab

/// Exported by the fake peer: sets the hook that is called at each call; null for none.
extern "C" void set_product_hook(reprolab::ProductHook hook);
