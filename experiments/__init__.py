"""The experiments, each in a folder: its claims, and the measurements that decide them."""
