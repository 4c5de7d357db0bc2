"""That the glossary and the traces of calls in docs/ agree with the code."""

import re

import pytest
from make_targets import ROOT

TERM = re.compile(r"\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| `(?P<file>[^`]+)` \|")
STEP = re.compile(r"(?P<number>\d+)\. `(?P<function>\w+)` \(`(?P<file>[^`]+)`\)(: .*|)")
TRACE = re.compile(r"#+ (?P<title>.+): (?P<calls>\d+) calls")


def lines_of(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines()


def words_of(text):
    """In lower case, with BufferSet, buffer_set and buffer-set all as `buffer set`."""
    return re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)).lower()


TERMS = [term for line in lines_of("glossary.md") if (term := TERM.fullmatch(line))]


def traces():
    """Steps by title, and how many calls the title says."""
    by_title = {}
    for line in lines_of("call-traces.md"):
        if heading := TRACE.fullmatch(line):
            steps = []
            by_title[heading["title"]] = (int(heading["calls"]), steps)
        elif line[:1].isdigit():
            step = STEP.fullmatch(line)
            assert step, line
            steps.append(step)
    return by_title


TRACES = traces()


def defined(function, text, is_python):
    """Whether a function of that name, or of a class's, begins in the text."""
    kinds = [rf"\b{function}\((?!\))", rf'"{function}"', rf"^[A-Z_]+\(.*\b{function}\b"]
    kinds = [rf"^ *def {function}\("] if is_python else kinds  # the last: by a macro
    return any(re.search(kind, text, re.MULTILINE) for kind in kinds)


def test_the_glossary_has_at_most_60_terms_each_once():
    terms = [term["term"] for term in TERMS]
    table = [line for line in lines_of("glossary.md") if line.startswith("|")]
    assert len(terms) == len(table) - 2  # the table's head
    assert 30 <= len(terms) <= 60
    assert len({words_of(term) for term in terms}) == len(terms)


@pytest.mark.parametrize("term", TERMS, ids=[term["term"] for term in TERMS])
def test_a_term_has_one_sentence_and_is_in_its_file(term):
    assert re.fullmatch(r"[^.]+(\.[a-z\d][^.]*)*\.", term["meaning"])
    text = words_of((ROOT / term["file"]).read_text(encoding="utf-8"))
    assert re.search(rf"\b{words_of(term['term'])}s?\b", text)


@pytest.mark.parametrize("title", TRACES)
def test_a_trace_has_as_many_calls_as_it_says(title):
    calls, steps = TRACES[title]
    assert [int(step["number"]) for step in steps] == list(range(1, calls + 1))


@pytest.mark.parametrize("title", TRACES)
def test_each_function_of_a_trace_is_in_its_file_and_named_by_a_caller(title):
    steps = TRACES[title][1]
    by_ctypes = (ROOT / "reprolab_nf4/c_functions.py").read_text(encoding="utf-8")
    callers = by_ctypes + steps[0]["function"]
    for step in steps:
        name, text = step["function"], (ROOT / step["file"]).read_text(encoding="utf-8")
        assert defined(name, text, step["file"].endswith(".py")), step[0]
        callers += text
        # Besides its definition; view modules have names in capitals for what pages show.
        assert len(re.findall(rf"\b{name}\b", callers, re.IGNORECASE)) > 1, step[0]
