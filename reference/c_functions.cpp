// libreprolab_reference.so: the reference for Python (reprolab/reference.py).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/c_weight.hpp"
#include "reference/nf4/checks.hpp"
#include "reference/nf4_product/product.hpp"

using namespace reprolab::reference;

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
/// if they do not.
const char* reprolab_reference_quantizer(const Weight* weight, Array source) {
  return kept(describe_quantizer(weight->tensor(), source.of<std::uint16_t>()));
}

/// Whether a table is that of NF4. bitsandbytes dequantizes with NF4's values whatever the table
/// is, but multiplies vectors with the table: with another one, there is no single right output.
bool reprolab_reference_is_nf4(Array table) {
  return std::bit_cast<std::array<std::uint32_t, 16>>(table.map<Nf4Table>()) ==
         std::bit_cast<std::array<std::uint32_t, 16>>(standard_table);
}
}
