# Eight words a thread by one load, the library's sum of a block, and one atomic addition, in Mojo.
#
# Source: Veitner's post on sums in Mojo, one_pass_4; written here, and its tail is the library's.
# Bound:  memory, and instruction issue: seven of eight trips only compare.
# Counterpart: sum_eight
# Alone:  make bench KERNEL=mojo_sum_eight
from add_block import *

comptime threads = 512
comptime words_per_block = 4096


@export("reduction")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def sum_eight(input: Words, output: Sum, n: Int) abi("C"):
    add_block[threads, words_per_block // threads // 8](input, output, n)
