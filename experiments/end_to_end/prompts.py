"""The prompts, drawn with a seed: only the values of the results depend on their tokens.

Their lengths are of a log-normal distribution whose quartiles are GSM8K's to within two tokens: the
1319 questions of its test set have 38, 51 and 64 words and signs at the quartiles, 19 at the least
and 181 at the most.
"""

import random
from math import log

from experiments.end_to_end import SEED

MEDIAN, SIGMA, SHORTEST, LONGEST = 50, 0.36, 19, 181
FIRST_TOKEN = 3  # most tokenizers' special ones are below it
TEXT = f"lengths as GSM8K's, seed {SEED}"


def lengths(count: int = 64) -> list[int]:
    rng = random.Random(SEED)
    drawn = (round(rng.lognormvariate(log(MEDIAN), SIGMA)) for _ in range(count))
    return [min(max(n, SHORTEST), LONGEST) for n in drawn]


def tokens_of(batch: int, vocab: int) -> list[list[int]]:
    """Random tokens of `batch` prompts; more than there are lengths take the first ones again."""
    rows, sizes = [], lengths()
    for i in range(batch):
        rng = random.Random(f"{SEED}/{i}")
        rows.append([rng.randrange(FIRST_TOKEN, vocab) for _ in range(sizes[i % len(sizes)])])
    return rows
