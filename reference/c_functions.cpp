// libreprolab_reference.so: the reference's weights, for experiments/end_to_end/reference.py.
#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/nf4/nested_scales.hpp"
#include "reference/nf4/nf4.hpp"
#include "reference/nf4_product/product.hpp"

using namespace reprolab::reference;

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

/// Writes the weights of a matrix: bits of fp16 (`type` 0) or bf16 (1), or in fp32, not rounded to
/// 16 bits before (2). `absmax`: scales, or the codes of nested ones, whose map, second-level
/// scales and block size are the three after it. Returns null or, where sizes disagree, what is
/// wrong, which is valid until the thread's next call.
extern "C" const char* reprolab_reference_weights(Array codes, Array absmax, Array map,
                                                  Array absmax2, int block_size2, float offset,
                                                  Array table, int block_size, int type,
                                                  Array weights) try {
  std::vector<float> scales(static_cast<std::size_t>(absmax.count));
  if (absmax2.count == 0) {
    scales = absmax.vector<float>();
  } else {
    dequantize_scales({absmax.vector<std::uint8_t>(), map.map<ScaleMap>(), absmax2.vector<float>(),
                       offset, block_size2},
                      scales);
  }
  const auto values = table.map<Nf4Table>();
  if (type < 2) {
    dequantize(codes.of<std::uint8_t>(), scales, values, block_size, WeightType{type},
               weights.of<std::uint16_t>());
    return nullptr;
  }
  Nf4Product matrix{.codes = codes.of<std::uint8_t>(), .absmax = scales, .table = values};
  matrix.block_size = block_size;
  std::vector<double> exact(weights.of<float>().size());
  require_nf4_sizes(exact.size(), block_size, matrix.codes.size(), scales.size());
  make_weights(matrix, Weights::exact, 0, exact);
  std::ranges::transform(exact, weights.of<float>().begin(),
                         [](double value) { return static_cast<float>(value); });
  return nullptr;
} catch (const std::exception& error) {
  static thread_local std::string why;
  why = error.what();
  return why.c_str();
}
