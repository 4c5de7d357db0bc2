"""Decides from result files which published claims hold. Needs no GPU, no build and no plotting."""
