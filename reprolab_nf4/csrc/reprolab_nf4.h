// libreprolab_nf4.so: this project's NF4 dequantization and NF4 products, under the names of
// bitsandbytes' C functions and under names of their own. Built by `make dropin`; docs/drop-in.md
// shows its use from Python. For C and C++.
//
// Pointers are to device memory. A block size is the number of values that share a scale.
//
// Every function that returns an int returns 0, or an error with CUDA's number (cudaError_t):
//   1 (cudaErrorInvalidValue)  an argument is invalid and nothing was launched: a pointer that is
//                              null or not aligned to its element, a block size that is not a
//                              power of two from 32 to 4096, a negative count, or an unknown kernel
//   801 (cudaErrorNotSupported)  a product that the kernel does not support on this device
//   any other                  the launch failed, such as 35 without a driver or with an old one,
//                              100 without a GPU, 209 for a GPU that the library was not built for
// reprolab_nf4_error() returns the message. Without outputs, a call does nothing and does not check
// pointers.
//
// A call enqueues its work on `stream` and returns, without waiting for the GPU. `stream`
// belongs to the calling thread's current device; null is the legacy default stream, as in
// bitsandbytes. Several threads may call at once. A call can be captured in a CUDA graph after the
// same function was called outside a capture. Errors that only the GPU detects, such as an invalid
// address, appear later, as for every kernel.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;  // cudaStream_t is a pointer to it.

// Dequantization: out[i] = round(table[code i of A] * absmax[i / blocksize]), to fp16 or bf16, with
// the NF4 table. The outputs have the bits that bitsandbytes computes. With the default kernel,
// "streaming", a call is one launch and allocates nothing. n counts weights.
//   code       ignored, may be null, as in bitsandbytes
//   A          [ceil(n / 2)] bytes of two codes each, the first weight in the high half
//   absmax     [ceil(n / blocksize)] fp32, 4-byte aligned
//   out        [n] fp16 or bf16, 2-byte aligned
int cdequantize_blockwise_fp16_nf4(const float* code, const unsigned char* A, const float* absmax,
                                   void* out, int blocksize, int n, struct CUstream_st* stream);
int cdequantize_blockwise_bf16_nf4(const float* code, const unsigned char* A, const float* absmax,
                                   void* out, int blocksize, int n, struct CUstream_st* stream);

// Sets the kernel for all later dequantizations of this process; null is the default, "streaming".
// An error does not change the choice. A call that the chosen kernel does not support, for example
// because it needs 16-byte alignment, runs streaming.
int reprolab_nf4_use(const char* kernel);

// The kernels that can be chosen: the bit-exact ones, one per line. Never freed.
const char* reprolab_nf4_kernels(void);

// Products: out[i][j] = round(sum over l of A[i][l] * weight[j][l], + bias[j]), summed in fp32.
// weight[j][l] is weight j * k + l of B: reprolab_nf4_exact_products() multiply by the bits that
// dequantization writes, few_rows and many_rows by the table's entry, rounded to 16 bits, times the
// fp32 scale, many_rows_rounded by entry, scale and product each rounded to 16 bits. With one
// kernel, a row of the output does not depend on the other rows of A, and is the same in every call
// on one kind of GPU, bit for bit.
//   kernel        one of reprolab_nf4_products()
//   is_bf16       the type of A, bias and out: 0 for fp16
//   A, bias, out  [m][k], [n] and [m][n] fp16 or bf16, 2-byte aligned; bias may be null. few_rows
//                 and many_rows, in all their forms, need A and B aligned to 16 bytes, and k to be
//                 a multiple of 64; few_rows and few_rows_exact support up to 16 rows, many_rows no
//                 blocks of 32. Names with _99kib: forms of few_rows for GPUs of 8.6, 8.9 and 12.0,
//                 for any number of rows
//   B             [ceil(n * k / 2)] bytes of two codes each
//   absmax        [ceil(n * k / blocksize)] fp32
//   absmax_codes  null without double quantization; then code2, offset and blocksize2 are ignored.
//                 With it, [ceil(n * k / blocksize)] bytes: the scale of block b is
//                 round(code2[absmax_codes[b]] * absmax[b / blocksize2]) + offset, in fp32, with
//                 code2 [256] and absmax [ceil(blocks / blocksize2)] fp32
//   weights_ready  not 0: B and the scales (absmax; absmax_codes and code2 if given) were complete
//                 before the previous kernel in `stream` began, as those of a loaded model are.
//                 From sm_90 on, all kernels but simple then begin to read them while that kernel
//                 may still run. If that kernel does write them, the product may be of the old
//                 values. 0 is always correct
//   workspace     of the size that reprolab_nf4_workspace returns, 16-byte aligned, not shared with
//                 a call that may run at the same time. Its contents do not matter. May be null if
//                 the size is 0
int reprolab_nf4_multiply(const char* kernel, int is_bf16, const void* A, const unsigned char* B,
                          const float* absmax, const unsigned char* absmax_codes,
                          const float* code2, float offset, const void* bias, void* out, int64_t m,
                          int64_t n, int64_t k, int blocksize, int blocksize2, int weights_ready,
                          void* workspace, struct CUstream_st* stream);

// Whether the kernel supports such a product on the current device. `*bytes`, in host memory: the
// size of its workspace.
int reprolab_nf4_workspace(const char* kernel, int64_t m, int64_t n, int64_t k, int blocksize,
                           uint64_t* bytes);

// A plan for all products of one layer and one number of rows: the checks above, the kernel's
// tiling on the current device, and its tensor maps of the weights. For callers that multiply by
// the same weights many times. The parameters are those of reprolab_nf4_multiply, m and n not 0.
// The arrays must keep their addresses while the plan is used; their contents may change. `*bytes`:
// the size of a run's workspace.
struct reprolab_nf4_plan;
int reprolab_nf4_make_plan(const char* kernel, int is_bf16, const unsigned char* B,
                           const float* absmax, const unsigned char* absmax_codes,
                           const float* code2, float offset, const void* bias, int64_t m, int64_t n,
                           int64_t k, int blocksize, int blocksize2,
                           struct reprolab_nf4_plan** plan, uint64_t* bytes);

// The same product as reprolab_nf4_multiply of the plan's parameters, on the plan's device,
// whichever is current. A must be aligned to 16 bytes for all kernels. Several threads may run one
// plan at once. A run in a capture fails with error 900 (cudaErrorStreamCaptureUnsupported): the
// caller's workspace is for the runs of one stream, but a graph may be replayed on any stream.
int reprolab_nf4_run(const struct reprolab_nf4_plan* plan, const void* A, void* out,
                     int weights_ready, void* workspace, struct CUstream_st* stream);

// Frees a plan that no call is using, or null. Enqueued runs complete.
int reprolab_nf4_forget(struct reprolab_nf4_plan* plan);

// The kernels for products, one per line, and those that multiply by exactly the weights that
// dequantization writes. Never freed.
const char* reprolab_nf4_products(void);
const char* reprolab_nf4_exact_products(void);

// nvcc's version and, on a second line, the architectures that the library was built for, as CMake
// names them (90-real is machine code, 121 machine code and PTX), separated by commas. Never freed.
const char* reprolab_nf4_build(void);

// The error message of this thread's latest call of a function above that returns an int, in one
// line; "" after success. Valid until this thread's next such call.
const char* reprolab_nf4_error(void);

#ifdef __cplusplus
}
#endif
