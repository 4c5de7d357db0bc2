// What the fake peer records of its calls.
#pragma once

#include <cstdint>

namespace reprolab {

/// The arguments of one call of bitsandbytes' C API.
struct PeerCall {
  char kind = 0;  ///< 'h' fp16, 'b' bf16, 's' scales (fp32).
  const float* code = nullptr;
  const std::uint8_t* codes = nullptr;
  const float* absmax = nullptr;
  void* output = nullptr;
  int block_size = 0, n = 0;
  void* stream = nullptr;
};

using PeerHook = void (*)(const PeerCall&);

}  // namespace reprolab

/// Exported by the fake peer: sets the hook that is called at each call; null for none.
extern "C" void set_peer_hook(reprolab::PeerHook hook);
