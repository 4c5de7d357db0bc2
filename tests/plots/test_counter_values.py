"""Numbers of counters as they are shown, and how they changed."""
