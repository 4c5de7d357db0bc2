# Eight words a thread by one load, the library's sum of a block, and one atomic addition, in Mojo.
#
# Source: Veitner's post on sums in Mojo, one_pass_4; written here, and its tail is the library's.
# Bound:  memory, and instruction issue: seven of eight trips only compare.
# Launch: 512 threads for 4096 words.
# Counterpart: sum_eight
# Alone:  make bench KERNEL=mojo_sum_eight
from add_block import *
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA
from std.utils import StaticTuple


@export("reduction")
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](512))
def sum_eight(input: Words, output: Sum, n: Int) abi("C"):
    add_block[1](input, output, n)
