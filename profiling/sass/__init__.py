"""Reads a kernel's machine code (SASS), without a GPU."""
