// A quantized weight as Python passes it (reprolab/reference.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {

struct Array {
  void* values;
  std::int64_t count;

  template <class T>
  std::span<T> of() const {
    return {static_cast<T*>(values), static_cast<std::size_t>(count)};
  }
  template <class T>
  std::vector<T> vector() const {
    return {of<T>().begin(), of<T>().end()};
  }
  template <class Map>
  Map map() const {
    Map map{};
    if (of<float>().size() != map.size()) throw std::invalid_argument("a map has another size");
    std::ranges::copy(of<float>(), map.begin());
    return map;
  }
};

/// A quantized weight. `absmax`: scales, or the codes of nested ones, whose map, second-level
/// scales, offset and block size are the four after it. `type`: 0 is fp16, 1 bf16.
struct Weight {
  Array codes, absmax, map, absmax2;
  int block_size2;
  float offset;
  Array table;
  int block_size, type;
  Array shape;

  QuantizedTensor tensor() const {
    QuantizedTensor tensor{.shape = shape.vector<std::int64_t>(),
                           .n = 1,
                           .block_size = block_size,
                           .type = WeightType{type},
                           .table = table.map<Nf4Table>(),
                           .codes = codes.vector<std::uint8_t>()};
    for (const auto size : tensor.shape) tensor.n *= size;
    tensor.absmax.resize(static_cast<std::size_t>(absmax.count));
    if (absmax2.count == 0) {
      tensor.absmax = absmax.vector<float>();
    } else {
      tensor.nested = {absmax.vector<std::uint8_t>(), map.map<ScaleMap>(), absmax2.vector<float>(),
                       offset, block_size2};
      dequantize_scales(*tensor.nested, tensor.absmax);
    }
    return tensor;
  }
};

/// A weight in memory that several processes share, its dequantized values by the reference, and
/// room for those of a kernel: bits of its type.
struct SharedWeight {
  Weight weight;
  Array expected, actual;
};

}  // namespace reprolab::reference
