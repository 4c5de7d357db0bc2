// The same detour with this project's fastest dequantization: what is left to win by not taking it.
//
// Source: ours.
// Bound:  memory: 16-bit weights written and read, four times the bytes of the codes each.
// Alone:  make bench KERNEL=streaming_then_cublas
#include "kernels/nf4_product/cublas_product.hpp"

namespace reprolab::nf4_product {
namespace {

const Register<Problem> registered{dequantize_then_cublas("streaming", "ours, then cuBLAS")};

}  // namespace
}  // namespace reprolab::nf4_product
