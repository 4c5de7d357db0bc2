// A plan of the drop-in library, which its users have as an opaque pointer.
#pragma once

#include <string>

#include "kernels/nf4_product/problem.hpp"
#include "kernels/registry.hpp"

struct reprolab_nf4_plan {
  std::string kernel;
  reprolab::nf4_product::Problem problem;  ///< Without activations.
  int device;
  bool needs_workspace;
  reprolab::Launcher<reprolab::nf4_product::Problem> launch;
};
