// libreprolab_reference.so: the reference for Python (reprolab/reference.py).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/mismatch_report.hpp"
#include "reference/nf4/nested_scales.hpp"
#include "reference/nf4/nf4.hpp"
#include "reference/nf4/quantizer_check.hpp"
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

namespace {

/// Valid until the thread's next call.
const char* kept(const std::string& text) {
  static thread_local std::string last;
  last = text;
  return last.c_str();
}

/// The error that `body` throws, or null.
template <class Body>
const char* error_of(Body body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    return kept(error.what());
  }
}

}  // namespace

extern "C" {

/// Tests the comparison of bits. As all that return a text: null, or an error.
const char* reprolab_reference_self_test() {
  return error_of([] { self_test_comparison(); });
}

/// Writes the weights of a matrix: bits of its type or, for type 2, in fp32, not rounded to 16 bits
/// before.
const char* reprolab_reference_weights(const Weight* weight, Array weights) {
  return error_of([&] {
    const auto tensor = weight->tensor();
    if (weight->type < 2) {
      dequantize(tensor.codes, tensor.absmax, tensor.table, tensor.block_size, tensor.type,
                 weights.of<std::uint16_t>());
      return;
    }
    Nf4Product matrix{.codes = tensor.codes, .absmax = tensor.absmax, .table = tensor.table};
    matrix.block_size = tensor.block_size;
    std::vector<double> exact(weights.of<float>().size());
    require_nf4_sizes(exact.size(), matrix.block_size, matrix.codes.size(), matrix.absmax.size());
    make_weights(matrix, Weights::exact, 0, exact);
    std::ranges::transform(exact, weights.of<float>().begin(),
                           [](double value) { return static_cast<float>(value); });
  });
}

/// The difference of outputs in one line, empty if no bit differs.
const char* reprolab_reference_mismatch(const Weight* weight, Array expected, Array actual) {
  const auto wanted = expected.of<std::uint16_t>(), found = actual.of<std::uint16_t>();
  const auto comparison = compare_bits(wanted, found);
  if (comparison.equal()) return "";
  const auto first = static_cast<std::size_t>(comparison.first_mismatch);
  return kept(describe_mismatch(comparison, weight->tensor(), wanted[first], found[first]));
}

/// How the reference's codes and scales for `source` differ from the weight's, in one line, empty
/// if they do not; `wrong` is set where rounding on a GPU does not explain it.
const char* reprolab_reference_quantizer(const Weight* weight, Array source, bool* wrong) {
  const auto check = check_quantizer(weight->tensor(), source.of<std::uint16_t>());
  *wrong = check.wrong();
  return kept(describe(check));
}

/// Whether a table is that of NF4. bitsandbytes dequantizes with NF4's values whatever the table
/// is, but multiplies vectors with the table: with another one, there is no single right output.
bool reprolab_reference_is_nf4(Array table) {
  return std::bit_cast<std::array<std::uint32_t, 16>>(table.map<Nf4Table>()) ==
         std::bit_cast<std::array<std::uint32_t, 16>>(standard_table);
}
}
