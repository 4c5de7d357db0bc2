// A library loaded on demand, so that every binary starts on a machine that lacks it.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace reprolab {

/// The path of the loaded library or program that holds a function; "" if none does.
inline std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Never closes the library: threads and exit handlers of the driver's libraries remain.
class DynamicLibrary {
 public:
  /// Loads the first of `names` that can be loaded. If none can, returns nullopt, and `*why_not`
  /// holds the error of each name.
  static std::optional<DynamicLibrary> open(const std::vector<std::string>& names,
                                            std::string* why_not) {
    why_not->clear();
    for (const std::string& name : names) {
      // Lazy binding: a function that is never called may lack symbols.
      if (void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
        return DynamicLibrary(handle);
      }
      if (!why_not->empty()) *why_not += "; ";
      const char* error = dlerror();
      *why_not += error ? error : name + ": unknown error";
    }
    return std::nullopt;
  }

  /// A function pointer, and the name under which the library exports the function.
  struct Symbol {
    template <class Function>
    Symbol(Function*& function, const char* name)
        : function(reinterpret_cast<void**>(&function)), name(name) {}
    void** function;
    const char* name;
  };

  /// Binds functions that are only useful together. Returns the missing ones, separated by commas;
  /// if any is missing, none is bound.
  std::string bind(std::initializer_list<Symbol> group) const {
    std::string missing;
    for (const Symbol& symbol : group) {
      *symbol.function = dlsym(handle_, symbol.name);
      if (*symbol.function == nullptr) {
        missing += (missing.empty() ? "" : ", ") + std::string(symbol.name);
      }
    }
    for (const Symbol& symbol : group) {
      if (!missing.empty()) *symbol.function = nullptr;
    }
    return missing;
  }

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace reprolab
