// A substitute for libbitsandbytes_cuda*.so, whose functions do nothing.
extern "C" {
void cdequantize_blockwise_fp16_nf4() {}
void cdequantize_blockwise_bf16_nf4() {}
void cdequantize_blockwise_fp32() {}
}
