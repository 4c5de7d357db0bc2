"""Prompts: the stated lengths, files, and tokens that a seed decides."""

import json
import statistics

import pytest

from experiments.end_to_end import prompts
from experiments.end_to_end.prompts import Prompts, random_prompts, read, tokens_of


def test_lengths_have_gsm8ks_quartiles():
    many = random_prompts(20000)
    assert statistics.quantiles(many.items, n=4) == pytest.approx((38, 51, 64), abs=2)
    assert min(many.items) == 19 and max(many.items) <= 181


def test_a_seed_decides_lengths_and_tokens():
    assert random_prompts() == random_prompts()
    first = tokens_of(random_prompts(), 4, 1000)
    assert first == tokens_of(random_prompts(), 8, 1000)[:4]
    assert [len(row) for row in first] == list(random_prompts().items[:4])
    assert len({len(row) for row in first}) > 1
    assert all(3 <= token < 1000 for row in first for token in row)


def test_a_file_with_questions_tokens_and_blank_lines(tmp_path):
    file = tmp_path / "gsm8k.jsonl"
    lines = [{"question": "What is 6 x 7?", "answer": "42"}, {"prompt": "Why?"}, {"tokens": [5, 6]}]
    file.write_text("\n\n".join(map(json.dumps, lines)))
    contents = read(file)
    assert contents == Prompts(("What is 6 x 7?", "Why?", (5, 6)), "3 of gsm8k.jsonl")
    assert prompts.lengths(contents) == [6, 2, 2]
    rows = tokens_of(contents, 4, 100, tokenize=lambda text: [ord(c) % 100 for c in text])
    assert [len(row) for row in rows] == [14, 4, 2, 14]
    assert rows[2] == [5, 6]
    assert [len(row) for row in tokens_of(contents, 3, 100)] == [6, 2, 2]


def test_only_a_newline_ends_a_line(tmp_path):
    file = tmp_path / "x.jsonl"
    texts = ["one\u2028two", "three\x85four"]
    lines = [json.dumps({"prompt": text}, ensure_ascii=False) for text in texts]
    file.write_bytes("\r\n".join(lines).encode())
    assert read(file).items == tuple(texts)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "x.jsonl: "),
        ("{", "x.jsonl:1: "),
        ("[" * 100_000, "x.jsonl:1: "),
        ('{"question": "a"}\n[]', "x.jsonl:2: "),
        ('{"question": ""}', "x.jsonl:1: "),
        ('{"question": "\\ud800"}', "x.jsonl:1: "),
        ('{"tokens": [1, -1]}', "x.jsonl:1: "),
        ('{"tokens": [true]}', "x.jsonl:1: "),
        ('\n{"tokens": [' + "7," * 900 + "7]}", "x.jsonl:2: "),
    ],
    ids="empty bracket nested list question surrogate negative boolean long".split(),
)
def test_a_faulty_file_is_one_line(tmp_path, text, place, refused):
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    assert f"/{place}" in refused(read, file)


def test_prompts_that_the_model_cannot_take(refused):
    faulty = Prompts(("text", (98, 99), 5, "word " * 901), "")
    assert "token 99" in refused(tokens_of, faulty, 3, 99)
    assert "901 tokens" in refused(tokens_of, faulty, 64, 100)
    assert len(tokens_of(faulty, 1, 99)) == 1  # no other is run
