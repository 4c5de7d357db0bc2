// libFuzzer target: any bytes are either read completely or refused with InvalidFile. Build with
// clang and -DREPROLAB_FUZZ=ON; start with tests/golden as the corpus.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "reference/checkpoint/bnb_checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reprolab::reference;
  const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const BnbCheckpoint checkpoint({"/proc/self/fd/" + std::to_string(file)});
    for (const auto& info : checkpoint.tensors()) dequantize(checkpoint.load(info, 1), 1);
  } catch (const InvalidFile&) {
  }
  ::close(file);
  return 0;
}
