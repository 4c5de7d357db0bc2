"""What the compiler made of a kernel: its machine code (SASS), read without a GPU."""
