// Owned Python objects, in CPython's stable ABI of 3.10: one extension for it and all later
// versions; and DLPack's C exchange: the structs of DLPack 1.x that are needed to read a tensor and
// to get the current stream. PyTorch 2.10 and later provide it as
// torch.Tensor.__dlpack_c_exchange_api__ (https://dmlc.github.io/dlpack, "C Exchange API").
#pragma once

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
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

namespace reprolab::layers::exchange {

struct Device {
  std::int32_t type, index;
  bool operator==(const Device&) const = default;
};

struct ElementType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
  bool operator==(const ElementType&) const = default;
};

/// A view of a tensor, valid until the tensor is freed or resized.
struct Tensor {
  void* data;
  Device device;
  std::int32_t dimensions;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;

  char* first() const { return static_cast<char*>(data) + byte_offset; }
};

struct Version {
  std::uint32_t major, minor;
};

/// Functions that are not called here are declared as plain pointers.
struct Api {
  Version version;
  Api* older;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*read)(void* object, Tensor* out);  ///< Not 0: an exception is set.
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

inline constexpr std::uint32_t major_version = 1;
inline constexpr char capsule_name[] = "dlpack_exchange_api";

}  // namespace reprolab::layers::exchange
