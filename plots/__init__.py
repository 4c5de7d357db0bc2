"""Results and verdicts in, tables and figures out. Needs no GPU and no build."""
