// shared_lut_then_cublas with this project's fastest dequantization: the baseline for kernels that
// do not write 16-bit weights to memory.
//
// Source: ours.
// Bound:  memory: 16-bit weights written and read, four times the bytes of the codes each.
// Alone:  make bench KERNEL=streaming_then_cublas
#include "kernels/nf4_product/cublas_product.hpp"

namespace reprolab::nf4_product {

const Register<Problem> registered{
    [] { return dequantize_then_cublas("streaming", "ours, then cuBLAS"); }};

}  // namespace reprolab::nf4_product
