// A peer with the symbols of bitsandbytes whose functions end the process. If built with
// CRASH_WHEN_LOADED, it ends the process when it is loaded.
#include <cstdlib>

#ifdef CRASH_WHEN_LOADED
namespace {
struct Crash {
  Crash() { std::_Exit(7); }
} crash;
}  // namespace
#endif

extern "C" {
void cdequantize_blockwise_fp16_nf4() { std::abort(); }
void cdequantize_blockwise_bf16_nf4() { std::abort(); }
}
