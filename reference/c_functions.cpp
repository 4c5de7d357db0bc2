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
  template <class Map>
  Map map() const {
    Map found{};
    if (of<float>().size() != found.size()) throw std::invalid_argument("a map has another size");
    std::ranges::copy(of<float>(), found.begin());
    return found;
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
    std::ranges::copy(absmax.of<float>(), scales.begin());
  } else {
    const auto bytes = absmax.of<std::uint8_t>();
    const auto seconds = absmax2.of<float>();
    dequantize_scales({{bytes.begin(), bytes.end()},
                       map.map<ScaleMap>(),
                       {seconds.begin(), seconds.end()},
                       offset,
                       block_size2},
                      scales);
  }
  const auto values = table.map<Nf4Table>();
  if (type < 2) {
    dequantize(codes.of<std::uint8_t>(), scales, values, block_size, WeightType{type},
               weights.of<std::uint16_t>());
    return nullptr;
  }
  const auto found = weights.of<float>();
  require_nf4_sizes(found.size(), block_size, codes.of<std::uint8_t>().size(), scales.size());
  std::vector<double> exact(found.size());
  make_weights({.codes = codes.of<std::uint8_t>(),
                .absmax = scales,
                .table = values,
                .block_size = block_size},
               Weights::exact, 0, exact);
  std::ranges::transform(exact, found.begin(), [](double x) { return static_cast<float>(x); });
  return nullptr;
} catch (const std::exception& error) {
  static thread_local std::string why;
  why = error.what();
  return why.c_str();
}
