// libreprolab_nf4.so: this project's NF4 dequantization under bitsandbytes' own C names, and with
// double quantization in one kernel. Built by `make dropin`; docs/drop-in.md shows it from Python.
// For C and C++.
//
// Pointers are to device memory. n counts weights, block sizes count values that share a scale. The
// outputs have the bits that bitsandbytes computes.
//
// Every function that returns an int returns 0, or an error with CUDA's number (cudaError_t):
//   1 (cudaErrorInvalidValue)  an argument is wrong and nothing was launched: a null pointer (but
//                              for `code`), one that is no multiple of its element's size, a block
//                              size that is no power of two from 32 to 4096, n < 0, or the name of
//                              a kernel that cannot be chosen
//   801 (cudaErrorNotSupported)  more than 2^39 - 256 weights, which is what a grid has blocks for
//   any other                  the launch failed: 35 without a driver or with one that is too old,
//                              100 without a GPU, 209 for a GPU that the library was not built for
// reprolab_nf4_error() has the message. With n == 0 pointers are not looked at and nothing is done.
//
// A call enqueues its work on `stream` and returns, without waiting for the GPU. `stream` is one of
// the calling thread's current device; null is the legacy default stream, as in bitsandbytes. Calls
// from several threads at once are fine. With the default kernel, "streaming", a call is one launch
// and allocates nothing. It can be captured in a CUDA graph once the same function was called
// outside of a capture. What only the GPU finds wrong, such as an address that is not its own, shows
// later, as for every kernel.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;  // cudaStream_t is a pointer to it.

// out[i] = round(table[code i of A] * absmax[i / blocksize]), to fp16 or bf16, with the NF4 table.
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

// Chooses the kernel that answers all calls of this process from now on; null is the default,
// "streaming". An error leaves the choice as it was. Where the chosen kernel does not support a
// call, for example because it needs 16-byte alignment, streaming answers that call.
int reprolab_nf4_use(const char* kernel);

// The names that can be chosen, which are those of the bit-exact kernels, one per line. Never freed.
const char* reprolab_nf4_kernels(void);

// What the library was built with, one per line: nvcc's version, and the architectures as CMake names
// them (90-real is machine code alone, 121 machine code and PTX), with commas between. Never freed.
const char* reprolab_nf4_build(void);

// What was wrong in this thread's latest call of a function above that returns an int, in one line;
// "" if nothing was. Valid until this thread's next such call.
const char* reprolab_nf4_error(void);

#ifdef __cplusplus
}
#endif
