"""Claims of every source, and the rules that decide them."""
