# As mojo_sum_eight, but sixteen words a thread by two loads.
#
# Source: Veitner's post on sums in Mojo, one_pass_5; written here, and its tail is the library's.
# Bound:  as mojo_sum_eight, with 15 of 16 trips that only compare.
# Counterpart: sum_sixteen
# Alone:  make bench KERNEL=mojo_sum_sixteen
from add_block import *

comptime threads = 512
comptime words_per_block = 8192


@export("reduction")
@__llvm_metadata(`nvvm.maxntid`=StaticTuple[Int32, 1](threads))
def sum_sixteen(input: Words, output: Sum, n: Int) abi("C"):
    add_block[threads, words_per_block // threads // 8](input, output, n)
