// A library loaded on demand, so that every binary starts on a machine that lacks it.
#pragma once

#include <dlfcn.h>

#include <optional>
#include <string>
#include <vector>

namespace reprolab::profiling {

/// Never closed: the driver's libraries leave threads and exit handlers behind.
class DynamicLibrary {
 public:
  /// The first of `names` that loads; none: empty, and `*why_not` holds each name's failure.
  static std::optional<DynamicLibrary> open(const std::vector<std::string>& names,
                                            std::string* why_not) {
    why_not->clear();
    for (const std::string& name : names) {
      if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return DynamicLibrary(handle);
      }
      if (!why_not->empty()) *why_not += "; ";
      const char* error = dlerror();
      *why_not += error ? error : name + ": unknown error";
    }
    return std::nullopt;
  }

  /// `Function` is a pointer type; null where the library has no such symbol.
  template <class Function>
  Function find(const char* symbol) const {
    return reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace reprolab::profiling
