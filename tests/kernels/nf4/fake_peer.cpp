// Stands in for libbitsandbytes_cuda*.so: its functions report their arguments and do nothing.
#include "tests/kernels/nf4/fake_peer.hpp"

namespace {
reprolab::PeerHook hook = nullptr;

void show(const reprolab::PeerCall& call) {
  if (hook != nullptr) hook(call);
}
}  // namespace

extern "C" {

void set_peer_hook(reprolab::PeerHook new_hook) { hook = new_hook; }

void cdequantize_blockwise_fp16_nf4(const float* code, const std::uint8_t* codes,
                                    const float* absmax, void* output, int block_size, int n,
                                    void* stream) {
  show({'h', code, codes, absmax, output, block_size, n, stream});
}

void cdequantize_blockwise_bf16_nf4(const float* code, const std::uint8_t* codes,
                                    const float* absmax, void* output, int block_size, int n,
                                    void* stream) {
  show({'b', code, codes, absmax, output, block_size, n, stream});
}

void cdequantize_blockwise_fp32(const float* code, const std::uint8_t* codes, const float* absmax,
                                void* output, int block_size, int n, void* stream) {
  show({'s', code, codes, absmax, output, block_size, n, stream});
}
}
