"""Common parts of the Mojo kernels: the arguments, the decode step and the packed store.

Every kernel is compiled four times: for fp16 or bf16 (-D BF16) and for plain or nested scales
(-D NESTED). kernels/nf4/format.hpp has the same rules for CUDA, and kernels/nf4/loaded_kernels.hpp
describes the arguments.
"""

from max.gpu import barrier, block_idx, thread_idx
from max.gpu.memory import AddressSpace
from std.memory import unsafe_stack_allocation
from std.sys import inlined_assembly, is_defined
from std.utils import StaticTuple

comptime nested = is_defined["NESTED"]()
comptime Output = DType.bfloat16 if is_defined["BF16"]() else DType.float16
comptime Bytes = ImmPointer[UInt8, ImmUntrackedOrigin]
comptime Floats = ImmPointer[Float32, ImmUntrackedOrigin]
comptime Weights = MutPointer[Scalar[Output], MutUntrackedOrigin]
comptime SharedTable = MutPointer[Float32, MutUntrackedOrigin, address_space=AddressSpace.SHARED]


@always_inline
def scaled(entry: Float32, scale: Float32) -> Float32:
    """One product, to nearest even, subnormals flushed: in PTX, so that no flag changes it."""
    return inlined_assembly[
        "mul.rn.ftz.f32 $0, $1, $2;", Float32, constraints="=f,f,f", has_side_effect=False
    ](entry, scale)


@always_inline
def read[type: DType](
    array: ImmPointer[Scalar[type], ImmUntrackedOrigin], index: Int32
) -> Scalar[type]:
    """Reads what no thread writes, through the read-only cache, as __ldg does."""
    return array.unsafe_offset(Int(index)).unsafe_load[invariant=True]()


@always_inline
def shared_table(table: Floats) -> SharedTable:
    """The table in shared memory; every thread of the block must call this."""
    var entries = unsafe_stack_allocation[16, Float32, address_space=AddressSpace.SHARED]()
    if thread_idx.x < 16:
        entries[unsafe_offset=Int(thread_idx.x)] = read(table, Int32(thread_idx.x))
    barrier()
    return entries


@fieldwise_init
struct Scales(TrivialRegisterPassable):
    """Reads the scale of a weight; a nested one is rounded after its product and after its sum."""

    var absmax: Floats
    var codes: Bytes
    var map: Floats
    var shift: Int32
    var second_shift: Int32
    var offset: Float32

    @always_inline
    def at(self, weight: Int32) -> Float32:
        var block = weight >> self.shift
        comptime if nested:
            var entry = read(self.map, Int32(read(self.codes, block)))
            return scaled(entry, read(self.absmax, block >> self.second_shift)) + self.offset
        else:
            return read(self.absmax, block)


@always_inline
def decoded_pair(
    codes: Bytes, entries: SharedTable, scale: Float32, byte: Int32
) -> SIMD[DType.float32, 2]:
    """The two weights of a byte."""
    var pair = read(codes, byte)
    return SIMD[DType.float32, 2](
        scaled(entries[unsafe_offset=Int(pair >> 4)], scale),
        scaled(entries[unsafe_offset=Int(pair & 15)], scale),
    )


@always_inline
def write_pair(output: Weights, pair: SIMD[DType.float32, 2], byte: Int32, n: Int32):
    """Writes the two weights of a byte with one 32-bit store, as far as they lie before the end."""
    var at = output.unsafe_offset(Int(2 * byte))
    if 2 * byte + 1 < n:
        at.unsafe_store[alignment=4](pair.cast[Output]())
    elif 2 * byte < n:  # the last byte of an odd length holds one weight
        at.unsafe_store(pair[0].cast[Output]())
