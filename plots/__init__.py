"""Results in, tables and figures out. Reads the result files that experiments/harness/RESULTS.md
describes and nothing else; needs no GPU and no build."""
