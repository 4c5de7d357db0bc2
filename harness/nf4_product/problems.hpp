// From the parts of a product to the problem that a kernel is given.
#pragma once

#include <optional>

#include "harness/nf4/device_tensor.hpp"
#include "harness/nf4_product/product_data.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4_product {

/// `matrix.output` is the output of the product. Without workspace and 16-bit weights.
Problem problem_of(const ProductSpec& spec, const nf4::Problem& matrix, const void* input,
                   const void* bias);

/// The problem that a kernel would get, without the memory: enough to ask whether it supports it.
Problem without_memory(const ProductSpec& spec);

/// Whether a kernel runs a problem; `weights` are handed to one that refuses it without.
struct Offer {
  Support support;
  bool given_weights = false;
};
Offer offer(const Kernel<Problem>& kernel, Problem problem, const void* weights);

}  // namespace reprolab::nf4_product
