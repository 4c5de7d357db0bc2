// Dequantization and matmul in two steps, as in the paper: its kernel writes 16-bit weights to
// memory, and cuBLAS reads them again.
//
// Source: arXiv 2604.02556, whose models use it at every batch size.
// Bound:  memory: 16-bit weights written and read, four times the bytes of the codes each.
// Alone:  make bench KERNEL=shared_lut_then_cublas
#include "kernels/nf4_product/cublas_product.hpp"

namespace reprolab::nf4_product {

const Register<Problem> registered{
    [] { return dequantize_then_cublas("shared_lut", "the paper's kernel, then cuBLAS"); }};

}  // namespace reprolab::nf4_product
