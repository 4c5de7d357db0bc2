"""Result files: their schema, reading, writing, statistics and provenance."""
