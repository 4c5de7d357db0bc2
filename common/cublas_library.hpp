// cuBLAS, loaded on demand: the version that this is compiled for, from the loader's search path,
// else the toolkit's, which CMake names in REPROLAB_CUBLAS_LIBRARY.
#pragma once

#include <cublas_v2.h>

#include <optional>
#include <string>

#include "common/dynamic_library.hpp"

namespace reprolab {

/// nullopt where it cannot be loaded; `*why_not` then says why.
inline std::optional<DynamicLibrary> open_cublas(std::string* why_not) {
  return DynamicLibrary::open(
      {"libcublas.so." + std::to_string(CUBLAS_VER_MAJOR), REPROLAB_CUBLAS_LIBRARY}, why_not);
}

/// "cuBLAS 13.1"
inline std::string cublas_maker() {
  return "cuBLAS " + std::to_string(CUBLAS_VER_MAJOR) + "." + std::to_string(CUBLAS_VER_MINOR);
}

}  // namespace reprolab
