"""The prompts: their lengths and tokens.

Without a file, lengths are drawn, with a seed, from a log-normal distribution whose quartiles are
GSM8K's to within two tokens: the 1319 questions of its test set have 38, 51 and 64 words and signs
at the quartiles, 19 at the least and 181 at the most.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

from experiments.end_to_end import SEED
from reprolab.errors import InputError, printable
from reprolab.json_files import read_text

MEDIAN, SIGMA, SHORTEST, LONGEST = 50, 0.36, 19, 181
TEXT_FIELDS = ("question", "prompt")  # GSM8K's own, and a plain one
FIRST_TOKEN = 3  # most tokenizers' special ones are below it
# With 32 new tokens, less than the sliding window of every model of data/models.json.
# A checkpoint's may be shorter (Gemma-3-1B's is 512); generate.py refuses longer prompts.
MOST_LONG = 900


@dataclass(frozen=True)
class Prompts:
    """`items`: a length, a text or tokens for each prompt."""

    items: tuple[int | str | tuple[int, ...], ...]
    text: str  # a description in a few words


def random_prompts(count: int = 64) -> Prompts:
    rng = random.Random(SEED)
    lengths = (round(rng.lognormvariate(log(MEDIAN), SIGMA)) for _ in range(count))
    items = tuple(min(max(n, SHORTEST), LONGEST) for n in lengths)
    return Prompts(items, f"lengths as GSM8K's, seed {SEED}")


def read(file: Path) -> Prompts:
    """One JSON object per line with 'question' or 'prompt', a text, or with 'tokens', a list."""
    items: list[str | tuple[int, ...]] = []
    for number, line in enumerate(read_text(file).split("\n"), 1):  # a text may hold other ends
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            content = json.loads(line)
        except ValueError:
            raise InputError(f"{where}: is not one JSON object") from None
        items.append(prompt_of(content, where))
    if not items:
        raise InputError(f"{file}: holds no prompt")
    return Prompts(tuple(items), f"{len(items)} of {printable(file.name)}"[:200])


def prompt_of(content: Any, where: str) -> str | tuple[int, ...]:
    fields = content if isinstance(content, dict) else {}
    text = next((fields[name] for name in TEXT_FIELDS if name in fields), None)
    if isinstance(text, str) and text.strip():
        return text
    tokens = fields.get("tokens")
    if isinstance(tokens, list) and tokens and all(type(t) is int and t >= 0 for t in tokens):
        check_length(len(tokens), f"{where}: the prompt")
        return tuple(tokens)
    raise InputError(f"{where}: needs 'question' or 'prompt' with a text, or 'tokens' with numbers")


def check_length(tokens: int, name: str) -> None:
    if not 0 < tokens <= MOST_LONG:
        raise InputError(f"{name} has {tokens} tokens; 1 to {MOST_LONG} can be run")


def count_words(text: str) -> int:
    """Words and signs: about the tokens of a text, for a model that has no tokenizer here."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def lengths(prompts: Prompts) -> list[int]:
    """The lengths in tokens, as far as they are known without a tokenizer."""
    sizes: dict[type, Callable[[Any], int]] = {int: int, str: count_words, tuple: len}
    return [sizes[type(item)](item) for item in prompts.items]


def tokens_of(
    prompts: Prompts,
    batch: int,
    vocab: int,
    tokenize: Callable[[str], Sequence[int]] | None = None,
) -> list[list[int]]:
    """The tokens of the first `batch` prompts, from the first again where there are fewer.

    The tokens of a length, or of a text without a tokenizer, are random: only the values of the
    results depend on them.
    """
    rows = []
    for i in range(batch):
        item = prompts.items[i % len(prompts.items)]
        if isinstance(item, str) and tokenize:
            row = list(tokenize(item))
        elif isinstance(item, tuple):
            row = list(item)
        else:
            rng = random.Random(f"{SEED}/{i}")
            size = item if isinstance(item, int) else count_words(item)
            row = [rng.randrange(FIRST_TOKEN, vocab) for _ in range(size)]
        which = f"PROMPTS: prompt {i + 1}"
        check_length(len(row), which)
        if max(row) >= vocab:
            raise InputError(f"{which} has token {max(row)}; the model knows 0 to {vocab - 1}")
        rows.append(row)
    return rows
