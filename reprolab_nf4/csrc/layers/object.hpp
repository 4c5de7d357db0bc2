// Owned Python objects, in CPython's stable ABI of 3.10: one extension for it and all later
// versions.
#pragma once

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace reprolab::layers {

/// A strong reference, or null.
class Ref {
 public:
  Ref() = default;
  Ref(const Ref& other) : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  static Ref to(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  /// Takes over a new reference, such as a function of Python's API returns.
  static Ref of_new(PyObject* owned) { return Ref(owned); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* owned) : object_(owned) {}
  PyObject* object_ = nullptr;
};

/// The object of a weak reference, borrowed, or null if it was freed.
inline PyObject* referent(const Ref& weak) {
  PyObject* const object = PyWeakref_GetObject(weak.get());
  return object == Py_None ? nullptr : object;
}

}  // namespace reprolab::layers
