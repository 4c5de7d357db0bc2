# Triton's own way: one tensor of bytes, two gathers from the table, and one interleaved store.
#
# Source: ours, in Triton; D. Robertson's post says: Triton has no obvious path to packed stores.
#         `make sass KERNEL=triton_lut ARCH=90` shows how wide the stores are that it compiles to.
# Bound:  memory with plain scales; with nested ones latency, as their loads depend on one another.
# Alone:  make bench KERNEL=triton_lut
import triton
import triton.language as tl

threads = 128
weights_per_block = 2048
BYTES = tl.constexpr(weights_per_block // 2)


@triton.jit
def scaled(entry, scale):
    # One product, rounded to nearest even, subnormals flushed, as in kernels/nf4/format.hpp.
    return tl.inline_asm_elementwise(
        "mul.rn.ftz.f32 $0, $1, $2;", "=f,f,f", [entry, scale], tl.float32, is_pure=True, pack=1
    )


@triton.jit
def scales(absmax, scale_codes, map, block, second_shift, offset, live, NESTED: tl.constexpr):
    if not NESTED:
        return tl.load(absmax + block, live, 0.0)
    entry = tl.load(map + tl.load(scale_codes + block, live, 0).to(tl.int32))
    return scaled(entry, tl.load(absmax + (block >> second_shift), live, 0.0)) + offset


@triton.jit
def nf4(
    codes, table, absmax, scale_codes, map, output, n, shift, second_shift, offset,
    NESTED: tl.constexpr,
):  # fmt: skip
    byte = tl.program_id(0) * BYTES + tl.arange(0, BYTES)
    live = byte < n // 2
    pair = tl.load(codes + byte, live, 0).to(tl.int32)
    scale = scales(absmax, scale_codes, map, byte * 2 >> shift, second_shift, offset, live, NESTED)
    first = scaled(tl.load(table + (pair >> 4)), scale)
    second = scaled(tl.load(table + (pair & 15)), scale)
    weight = tl.program_id(0) * (2 * BYTES) + tl.arange(0, 2 * BYTES)
    both = tl.interleave(first, second).to(output.dtype.element_ty)
    tl.store(output + weight, both, weight < n)
