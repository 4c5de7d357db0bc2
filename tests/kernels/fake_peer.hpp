// The fake peer's record of its calls.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace reprolab {

/// The arguments of one call of bitsandbytes' C API.
struct PeerCall {
  std::string function{};  ///< As it is exported.
  const void *input = nullptr, *codes = nullptr;
  const float* absmax = nullptr;
  const void* absmax_8bit = nullptr;
  const float *map = nullptr, *offset = nullptr;  ///< `map`: the code of a dequantization, too.
  void* output = nullptr;
  const void* bias = nullptr;
  int m = 0, n = 0, k = 0, block_size = 0, quant_type = 0;
  int lda = 0, ldb = 0, ldc = 0;
  void* stream = nullptr;
};

using PeerHook = void (*)(const PeerCall&);

inline std::vector<PeerCall> peer_calls;
inline PeerHook after_call = nullptr;

/// Clears `peer_calls` and records the calls of the fake peer at that path in it. `then` is also
/// called with each.
inline void record_peer_calls(
    const char* path, PeerHook then = [](const PeerCall&) {}) {
  void* library = dlopen(path, RTLD_NOW);  // the loaded instance: dlopen only counts references
  peer_calls.clear();
  after_call = then;
  reinterpret_cast<void (*)(PeerHook)>(dlsym(library, "set_peer_hook"))([](const PeerCall& call) {
    peer_calls.push_back(call);
    after_call(call);
  });
}

}  // namespace reprolab
