// DLPack's C exchange: the structs of DLPack 1.x that are needed to read a tensor and to get the
// current stream. PyTorch 2.10 and later provide it as torch.Tensor.__dlpack_c_exchange_api__
// (https://dmlc.github.io/dlpack, "C Exchange API").
#pragma once

#include <cstdint>

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
