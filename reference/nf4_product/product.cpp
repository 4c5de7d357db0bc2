#include "reference/nf4_product/product.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <stdexcept>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Values of the 16 codes in a block of this scale.
std::array<double, 16> values_of(const Nf4Product& product, Weights which, float scale) {
  const auto rounded = [&](float value) {
    return widen(product.type, round_to(product.type, value));
  };
  std::array<double, 16> values{};
  for (std::size_t code = 0; code < values.size(); ++code) {
    const float entry = product.table[code];
    switch (which) {
      case Weights::dequantized:
        values[code] = rounded(flush_subnormal(flush_subnormal(entry) * flush_subnormal(scale)));
        break;
      case Weights::rounded_entries:
        values[code] = static_cast<double>(rounded(entry)) * scale;
        break;
      case Weights::exact:
        values[code] = static_cast<double>(entry) * scale;
        break;
    }
  }
  return values;
}

void require_sizes(const Nf4Product& product) {
  const auto require = [](const char* what, std::size_t size, std::int64_t wanted) {
    if (static_cast<std::int64_t>(size) == wanted) return;
    throw std::invalid_argument(fmt::format("{}: {} elements, not {}", what, size, wanted));
  };
  require_nf4_sizes(static_cast<std::size_t>(product.n * product.k), product.block_size,
                    product.codes.size(), product.absmax.size());
  require("input", product.input.size(), product.m * product.k);
  if (!product.bias.empty()) require("bias", product.bias.size(), product.n);
}

constexpr std::int64_t weights_per_chunk = std::int64_t{1} << 19;  // 4 MiB of fp64 a thread

}  // namespace

void make_weights(const Nf4Product& product, Weights which, std::int64_t first,
                  std::span<double> weights) {
  const std::int64_t end = first + static_cast<std::int64_t>(weights.size());
  for (std::int64_t at = first; at < end;) {
    const std::int64_t block = at / product.block_size;
    const auto values = values_of(product, which, product.absmax[static_cast<std::size_t>(block)]);
    const std::int64_t block_end = std::min(end, (block + 1) * product.block_size);
    for (; at < block_end; ++at) {
      weights[static_cast<std::size_t>(at - first)] =
          values[static_cast<std::size_t>(code_at(product.codes, at))];
    }
  }
}

ProductSums product_sums(const Nf4Product& product, Weights which) {
  require_sizes(product);
  const auto [m, n, k] = std::array{product.m, product.n, product.k};
  Matrix input(m, k);
  for (std::int64_t i = 0; i < m * k; ++i) {
    input.data()[i] = widen(product.type, product.input[static_cast<std::size_t>(i)]);
  }
  const Matrix input_magnitude = input.cwiseAbs();
  const auto elements = static_cast<std::size_t>(m * n);
  ProductSums sums{std::vector<double>(elements), std::vector<double>(elements)};
  Eigen::Map<Matrix> sum(sums.sum.data(), m, n), magnitude(sums.magnitude.data(), m, n);
  const std::int64_t rows = std::max<std::int64_t>(1, weights_per_chunk / std::max(k, m));
  parallel_for(n, rows, [&](std::int64_t begin, std::int64_t end) {
    Matrix weights(end - begin, k);
    make_weights(product, which, begin * k,
                 {weights.data(), static_cast<std::size_t>(weights.size())});
    sum.middleCols(begin, end - begin).noalias() = input * weights.transpose();
    magnitude.middleCols(begin, end - begin).noalias() =
        input_magnitude * weights.cwiseAbs().transpose();
  });
  return sums;
}

}  // namespace reprolab::reference
