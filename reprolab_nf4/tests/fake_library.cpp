// A substitute for libbitsandbytes_cuda*.so or, with OURS, libreprolab_nf4.so: writes each call's
// arguments to `out`, which is host memory here. The value that bitsandbytes' void functions return
// must be ignored.
#include <cstdio>
#include <cstring>

namespace {
// The text differs by function and library.
int write_call(const char* function, const void* code, const void* a, const void* absmax, void* out,
               int block_size, int n, const void* stream) {
  std::sprintf(static_cast<char*>(out), "%s %s %p %p %p %d %d %p", LIBRARY, function, code, a,
               absmax, block_size, n, stream);
  return 77;
}
}  // namespace

extern "C" {
#ifdef OURS
namespace {
char message[100] = "", chosen[100] = "streaming";
}

int reprolab_nf4_use(const char* kernel) {
  const char* wanted = kernel == nullptr ? "streaming" : kernel;
  const bool known = std::strcmp(wanted, "streaming") == 0 || std::strcmp(wanted, "tree") == 0;
  if (known) std::strcpy(chosen, wanted);
  std::sprintf(message, "%s", known ? "" : "no such kernel");
  return known ? 0 : 1;
}
const char* reprolab_nf4_kernels() { return "streaming\ntree"; }
const char* reprolab_nf4_products() { return "few_rows\nfew_rows_exact\nmany_rows\nsimple\ntree"; }
const char* reprolab_nf4_exact_products() { return "few_rows_exact\nsimple"; }
#ifndef OLD
const char* reprolab_nf4_build() { return "13.0.88\n80-real,90"; }
#endif
const char* reprolab_nf4_error() { return message; }
const char* chosen_kernel() { return chosen; }

int cdequantize_blockwise_fp16_nf4(const void* code, const void* a, const void* absmax, void* out,
                                   int block_size, int n, const void* stream) {
  std::sprintf(message, "%s", n < 0 ? "n is negative" : "");
  if (n >= 0) write_call("fp16", code, a, absmax, out, block_size, n, stream);
  return n < 0 ? 1 : 0;
}
int cdequantize_blockwise_bf16_nf4(const void* code, const void* a, const void* absmax, void* out,
                                   int block_size, int n, const void* stream) {
  write_call("bf16", code, a, absmax, out, block_size, n, stream);
  return 0;
}
int reprolab_nf4_multiply() { return 0; }
int reprolab_nf4_make_plan() { return 0; }
int reprolab_nf4_run() { return 0; }
int reprolab_nf4_forget() { return 0; }
int reprolab_nf4_workspace() { return 0; }
#else
int get_context() { return 5; }  // bitsandbytes' sign of a CUDA library
#define DEQUANTIZATION(function, type)                                                         \
  int function(const void* code, const void* a, const void* absmax, void* out, int block_size, \
               int n, const void* stream) {                                                    \
    return write_call(type, code, a, absmax, out, block_size, n, stream);                      \
  }
DEQUANTIZATION(cdequantize_blockwise_fp16_nf4, "fp16")
#ifndef WITHOUT_BF16
DEQUANTIZATION(cdequantize_blockwise_bf16_nf4, "bf16")
#endif
DEQUANTIZATION(cdequantize_blockwise_fp16_fp4, "fp4")
#endif
}
