# As mojo_sum_eight, but sixteen words a thread by two loads.
#
# Source: Veitner's post on sums in Mojo, one_pass_5; written here, and its tail is the library's.
# Bound:  as mojo_sum_eight, with 15 of 16 trips that only compare.
# Launch: 512 threads for 8192 words.
# Counterpart: sum_sixteen
# Alone:  make bench KERNEL=mojo_sum_sixteen
from add_block import *
from max.gpu import MAX_THREADS_PER_BLOCK_METADATA
from std.utils import StaticTuple


@export("reduction")
@__llvm_metadata(MAX_THREADS_PER_BLOCK_METADATA=StaticTuple[Int32, 1](512))
def sum_sixteen(input: Words, output: Sum, n: Int) abi("C"):
    add_block[2](input, output, n)
