#include "experiments/nf4/peers.hpp"

#include "experiments/harness/errors.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"

namespace reprolab::nf4 {

void load_peers(const std::vector<std::string>& libraries) {
  try {
    for (const auto& library : libraries) add_bitsandbytes_peer(library);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace reprolab::nf4
