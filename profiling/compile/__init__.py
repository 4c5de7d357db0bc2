"""Kernels that this project writes in other languages, compiled ahead of time to PTX."""
