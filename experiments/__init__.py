"""What is claimed, and what is run to decide it: a folder for each experiment."""
