"""Reads the machine code (SASS) that the compiler made of a kernel, without a GPU."""
