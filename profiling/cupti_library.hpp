// CUPTI, loaded on demand, and the remedies for its errors.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "kernels/dynamic_library.hpp"
#include "profiling/basics.hpp"

namespace reprolab::profiling {

/// A call that CUPTI refused.
struct CuptiError : NotMeasured {
  using NotMeasured::NotMeasured;
};

/// Base of all classes that call CUPTI's functions.
struct CuptiCalls {
  std::string_view what;         ///< Begins every message.
  std::string_view otherwise{};  ///< Ends messages of errors without a specific remedy.
  decltype(&cuptiGetResultString) get_result_string = nullptr;

  /// CUPTI of this build's CUDA major version: the library that REPROLAB_CUPTI names, else the one
  /// that the loader finds, else the toolkit's own. Throws std::runtime_error with the remedy if
  /// none is usable, or if a profiler already holds this process: CUPTI serves one at a time.
  DynamicLibrary open() const;

  /// Binds functions that exist from CUDA `version` on; throws std::runtime_error that names the
  /// missing ones.
  void bind(const DynamicLibrary& library, std::string_view version,
            std::initializer_list<DynamicLibrary::Symbol> group) const;

  /// Throws CuptiError.
  void check(CUptiResult result, std::string_view function) const;
};

/// The functions of CUPTI's profiling APIs (CUDA 12.6 update 2 and newer). Each takes one struct of
/// parameters, which has the function's name and starts with its own size.
class CuptiProfiling : public CuptiCalls {
 public:
  /// Throws std::runtime_error if the library lacks them.
  explicit CuptiProfiling(const DynamicLibrary& library);

  template <class Params>
  CUptiResult try_call(const char* name, std::size_t size, Params& params) const {
    CUptiResult (*function)(Params*) = nullptr;
    bind(library_, first_version, {{function, name}});
    params.structSize = size;
    return function(&params);  // NOLINT(clang-analyzer-core.CallAndMessage): bind() has set it
  }
  /// Throws CuptiError if CUPTI refuses.
  template <class Params>
  void call(const char* name, std::size_t size, Params& params) const {
    check(try_call(name, size, params), name);
  }

 private:
  static constexpr std::string_view first_version = "12.6 update 2";
  DynamicLibrary library_;
};

}  // namespace reprolab::profiling
