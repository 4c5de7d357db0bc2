# Prints the elements that every thread of the transpose's Mojo kernels moves: kernel, source and
# destination in shared memory. tests/profiling/compile/test_transpose_in_mojo.py compiles and runs it,
# without a GPU.
from swizzle import *


def main():
    for thread in range(1024):
        var row, column = single_element(UInt32(thread))
        print("naive", flat(row, column), flat(column, row))
        print("swizzle", flat_swizzled(row, column), flat_swizzled(column, row))
    for thread in range(128):
        for j in range(batch):
            var row, column = batched_element(UInt32(thread), UInt32(j))
            print("batched", flat_swizzled(row, column), flat_swizzled(column, row))
            var source, target = published_move(UInt32(thread), UInt32(j))
            print("published", source, target)
