// libreprolab_nf4.so: this project's NF4 dequantization and NF4 products under bitsandbytes' own C
// names, and with all that its kernels can. Built by `make dropin`; docs/drop-in.md shows it from
// Python. For C and C++.
//
// Pointers are to device memory. Block sizes count values that share a scale.
//
// Every function that returns an int returns 0, or an error with CUDA's number (cudaError_t):
//   1 (cudaErrorInvalidValue)  an argument is wrong and nothing was launched: a null pointer, one
//                              that is no multiple of its element's size, a block size that is no
//                              power of two from 32 to 4096, a negative count, or the name of a
//                              kernel that there is not
//   801 (cudaErrorNotSupported)  more than 2^39 - 256 weights to dequantize, which is what a grid
//                              has blocks for, or a product that the kernel cannot do here
//   any other                  the launch failed: 35 without a driver or with one that is too old,
//                              100 without a GPU, 209 for a GPU that the library was not built for
// reprolab_nf4_error() has the message. Where there is nothing to write, pointers are not looked at
// and nothing is done.
//
// A call enqueues its work on `stream` and returns, without waiting for the GPU. `stream` is one of
// the calling thread's current device; null is the legacy default stream, as in bitsandbytes. Calls
// from several threads at once are fine. It can be captured in a CUDA graph once the same function
// was called outside of a capture. What only the GPU finds wrong, such as an address that is not its
// own, shows later, as for every kernel.
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

// The same with double quantization: the scale of block b is
//   round(code2[absmax_codes[b]] * absmax2[b / blocksize2]) + offset, in fp32.
//   absmax_codes  [ceil(n / blocksize)] bytes
//   code2         [256] fp32, 4-byte aligned
//   absmax2       [ceil(blocks / blocksize2)] fp32 for the blocks = ceil(n / blocksize), 4-byte
//                 aligned
int reprolab_nf4_dequantize_nested_fp16(const unsigned char* A, const unsigned char* absmax_codes,
                                        const float* code2, const float* absmax2, float offset,
                                        void* out, int blocksize, int blocksize2, int64_t n,
                                        struct CUstream_st* stream);
int reprolab_nf4_dequantize_nested_bf16(const unsigned char* A, const unsigned char* absmax_codes,
                                        const float* code2, const float* absmax2, float offset,
                                        void* out, int blocksize, int blocksize2, int64_t n,
                                        struct CUstream_st* stream);

// Chooses the kernel that answers all dequantizations of this process from now on; null is the
// default, "streaming". An error leaves the choice as it was. Where the chosen kernel does not support a
// call, for example because it needs 16-byte alignment, streaming answers that call.
int reprolab_nf4_use(const char* kernel);

// The names that can be chosen, which are those of the bit-exact kernels, one per line. Never freed.
const char* reprolab_nf4_kernels(void);

// Products: out[i][j] = round(sum over l of A[i][l] * weight[j][l], + bias[j]), summed in fp32.
// weight[j][l] is weight j * k + l of B: reprolab_nf4_exact_products() multiply by the bits that
// dequantization writes, few_rows and many_rows by the table's entry, rounded to 16 bits, times the
// fp32 scale, many_rows_rounded by entry, scale and product each rounded to 16 bits. With
// one kernel, a row of the output does not depend on the other rows of A, and is the same in every
// call on one kind of GPU, bit for bit.
//   kernel        one of reprolab_nf4_products()
//   A, bias, out  [m][k], [n] and [m][n] fp16 or bf16, 2-byte aligned; bias may be null. few_rows
//                 and many_rows, in all their forms, need A and B aligned to 16 bytes, and k to be a
//                 multiple of 64; few_rows and few_rows_exact support up to 16 rows, many_rows no
//                 blocks of 32. Names with _99kib: forms of few_rows for GPUs of 8.6, 8.9 and 12.0,
//                 for any number of rows
//   B             [ceil(n * k / 2)] bytes of two codes each
//   absmax        [ceil(n * k / blocksize)] fp32, or, with double quantization, absmax2 above
//   absmax_codes  null without double quantization; then code2, offset and blocksize2 are ignored.
//                 With it, these five are those of dequantization
//   weights_are_settled  not 0 promises that B and the scales (absmax; absmax_codes and code2 where
//                 given) were complete before the kernel that precedes the call in `stream` began, as
//                 those of a loaded model are. From sm_90 on, all kernels but simple then begin to read
//                 them while that kernel may still run. If it is untrue, for example because that
//                 kernel writes them, the product may be of what was there before. 0 is always right
//   workspace     as many bytes as reprolab_nf4_workspace says, 16-byte aligned, of no other call
//                 that may run at the same time. What it holds does not matter. May be null where it
//                 is 0 bytes
int reprolab_nf4_multiply_fp16(const char* kernel, const void* A, const unsigned char* B,
                               const float* absmax, const unsigned char* absmax_codes,
                               const float* code2, float offset, const void* bias, void* out,
                               int64_t m, int64_t n, int64_t k, int blocksize, int blocksize2,
                               int weights_are_settled, void* workspace,
                               struct CUstream_st* stream);
int reprolab_nf4_multiply_bf16(const char* kernel, const void* A, const unsigned char* B,
                               const float* absmax, const unsigned char* absmax_codes,
                               const float* code2, float offset, const void* bias, void* out,
                               int64_t m, int64_t n, int64_t k, int blocksize, int blocksize2,
                               int weights_are_settled, void* workspace,
                               struct CUstream_st* stream);

// Whether the kernel can do such a product on the current device, and then in `*bytes`, which is
// host memory, the size of its workspace.
int reprolab_nf4_workspace(const char* kernel, int64_t m, int64_t n, int64_t k, int blocksize,
                           uint64_t* bytes);

// What the products of a layer with a number of rows have in common, made once: the checks above, how
// the kernel splits the product on the current device, and its descriptions of the weights. For callers
// that multiply by the same weights again and again. The parameters are those of
// reprolab_nf4_multiply_*, m and n not 0; the arrays must stay where they are as long as the plan is
// used. What they hold may change. `*bytes`: the size of a run's workspace.
struct reprolab_nf4_plan;
int reprolab_nf4_plan_fp16(const char* kernel, const unsigned char* B, const float* absmax,
                           const unsigned char* absmax_codes, const float* code2, float offset,
                           const void* bias, int64_t m, int64_t n, int64_t k, int blocksize,
                           int blocksize2, struct reprolab_nf4_plan** plan, uint64_t* bytes);
int reprolab_nf4_plan_bf16(const char* kernel, const unsigned char* B, const float* absmax,
                           const unsigned char* absmax_codes, const float* code2, float offset,
                           const void* bias, int64_t m, int64_t n, int64_t k, int blocksize,
                           int blocksize2, struct reprolab_nf4_plan** plan, uint64_t* bytes);

// The same product as reprolab_nf4_multiply_* of the plan's parameters, on the plan's device, whichever
// is current. A is aligned to 16 bytes whatever the kernel. Several threads may run one plan at once. In a
// capture it is refused with error 900 (cudaErrorStreamCaptureUnsupported): a caller's workspace for
// all runs on a stream is not that of a graph, which is replayed on any.
int reprolab_nf4_run(const struct reprolab_nf4_plan* plan, const void* A, void* out,
                     int weights_are_settled, void* workspace, struct CUstream_st* stream);

// Frees a plan that no call uses, or null. Enqueued runs go on.
int reprolab_nf4_forget(struct reprolab_nf4_plan* plan);

// The same products as bitsandbytes 0.50 calls its own. The first of few_rows (up to 16 rows),
// many_rows, few_rows_99kib and simple that supports it runs, in memory that is allocated in the
// stream's order.
//   absmax_8bit, absmax_code, absmax_offset  null without double quantization; else absmax_codes,
//                 code2, and the address of the offset; blocksize2 is 256. The scales then have a
//                 launch of their own, which reprolab_nf4_multiply_* does without
//   quant_type    2, which is NF4. Of all else, and of fp32, bitsandbytes' own library has products
int cgemm_4bit_fp16(const void* A, const unsigned char* B, const float* absmax,
                    const unsigned char* absmax_8bit, const float* absmax_code,
                    const float* absmax_offset, void* out, const void* bias, int M, int N, int K,
                    int blocksize, int quant_type, struct CUstream_st* stream);
int cgemm_4bit_bf16(const void* A, const unsigned char* B, const float* absmax,
                    const unsigned char* absmax_8bit, const float* absmax_code,
                    const float* absmax_offset, void* out, const void* bias, int M, int N, int K,
                    int blocksize, int quant_type, struct CUstream_st* stream);

// How far the outputs of a correct product without bias may be from the exact ones before they are
// rounded to fp16 or bf16, whatever the kernel and the order of its sums: in row i of A at most
// relative[i] * S + absolute[i], with S = sum over l of |A[i][l] * weight[j][l]|; where S is *limit or
// more, a step may overflow. All arrays are in host memory.
//   nonzero, magnitude  [m] of row i of A: how many of its k inputs are not 0, and the sum of |A[i][l]|
//   offset              of nested scales; 0 for plain ones
//   relative, absolute  [m]
int reprolab_nf4_row_bounds_fp16(const int64_t* nonzero, const double* magnitude, float offset,
                                 int64_t m, int64_t k, double* relative, double* absolute,
                                 double* limit);
int reprolab_nf4_row_bounds_bf16(const int64_t* nonzero, const double* magnitude, float offset,
                                 int64_t m, int64_t k, double* relative, double* absolute,
                                 double* limit);

// The names of the kernels of products, one per line, and of those that multiply by exactly the
// weights that dequantization writes. Never freed.
const char* reprolab_nf4_products(void);
const char* reprolab_nf4_exact_products(void);

// What the library was built with, one per line: nvcc's version, and the architectures as CMake names
// them (90-real is machine code alone, 121 machine code and PTX), with commas between. Never freed.
const char* reprolab_nf4_build(void);

// What was wrong in this thread's latest call of a function above that returns an int, in one line;
// "" if nothing was. Valid until this thread's next such call.
const char* reprolab_nf4_error(void);

#ifdef __cplusplus
}
#endif
