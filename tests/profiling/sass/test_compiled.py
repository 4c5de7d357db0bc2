"""The compiled code of every kernel for the GPUs with recorded numbers; with ARCHITECTURES=all in
the environment, also of the paper's kernels for the paper's GPU, and of one kernel of each walk for
the other architectures. Needs nvcc, but no GPU. Each file is compiled once per architecture, into
build/sass/.

Facts that documents and claims depend on are tested exactly, choices of the compiler by a bound.
"""

import os
import re
from collections import Counter

import pytest
from sass import cubin, kernels, tools
from sass.code import measured_code, measured_codes
from sass.facts import BULK_STORES, GLOBAL_LOADS, GLOBAL_STORES, Facts, of
from sass.measures import measures

from reprolab.code import OLDER, known_codes
from reprolab.errors import InputError
from reprolab.json_files import ROOT

try:
    tools.require_all()
    cubin.build_commands()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

PAPERS, OURS = "sm_80", "sm_90"  # the paper's GPU; that of recorded numbers, with TMA
ALL = os.environ.get("ARCHITECTURES") == "all"
OTHERS = [arch for arch in cubin.architectures() if ALL and arch != OURS]
WITHOUT_ACCELERATOR = ("sm_75", "sm_80", "sm_89")
LUT = [
    *("constant_lut", "global_lut", "warp_shuffle_lut", "shared_lut", "shared_lut_cooperative"),
    *("shared_lut_immediates", "shared_lut_tile512", "shared_lut_algorithm1"),
]
TILE_WALKS = ["branch_tree", "branch_tree_constant", *LUT]
# Kernels of the post: the weights that a thread decodes, and the bytes of its stores.
BYTE_WALKS = {
    "scalar_store": (2, 2),
    "packed_store": (2, 4),
    "tiled_packed": (2, 4),
    "warp_per_block": (2, 4),
    "packed_512": (4, 4),
    "packed_512_as_published": (4, 4),
    "packed_512_store_each": (4, 4),
    "packed_1024": (4, 4),
    "packed_512_registers": (4, 4),
    "packed_1024_registers": (4, 4),
}
# For kernels that hold registers, the blocks that fit by registers on multiprocessors of 64 warps.
HOLDING = {"packed_512_registers": (512, 3), "packed_1024_registers": (1024, 1)}
# One block fills a multiprocessor, with 96 registers per thread.
FULL_BLOCKS = ["few_rows", "few_rows_exact", "few_rows_99kib", "few_rows_exact_99kib"]
SMALL_SHARED_MEMORY = ("sm_86", "sm_89", "sm_120") if ALL else ()
# Kernels of the streaming walk, with the weights that a thread decodes.
STREAMS = {
    "wide_store": 8,
    "wide_store_hints": 8,
    "wide_store_unrolled": 16,
    "streaming": 8,
}
VECTOR_TILES = ["tiled", "column_walk", "column_walk_plain_reads", "column_walk_six_blocks"]
TMA = ["tma_naive", "tma_swizzle", "tma_batched", "tma_batched_as_published"]
# One of each walk, for the other architectures; products for the paper's, too.
EXAMPLES = ("branch_tree", "shared_lut", "packed_512", "streaming", "column_walk", "tma_batched")
PRODUCTS = ("few_rows", "many_rows")
# Counts of bitsandbytes' walk, per thread; kernels/nf4/tile_walk.cuh says what they cost.
TILE_WALK_REGISTERS = {"sm_75": 64, "sm_80": 56, "sm_89": 48, "sm_90": 48, "sm_100": 40}
NESTED = "unsigned int, NestedScaleReader, __half"
FUSED = "unsigned int, FusedNestedScaleReader, __half"


@pytest.fixture(scope="session")
def compiled():
    """Facts by kernel, then by architecture."""
    known = kernels.registered()
    papers = {*TILE_WALKS, "branch_tree_constant", *PRODUCTS} - {*EXAMPLES}
    codes = measured_codes(known.values(), [OURS])
    codes += measured_codes([known[name] for name in papers], [PAPERS] * ALL)
    codes += measured_codes([known[name] for name in EXAMPLES], OTHERS)
    by_kernel = {}
    for code in codes:
        by_kernel.setdefault(code.kernel.name, {})[code.arch] = Facts(code)
    return by_kernel


@pytest.fixture
def each(compiled):
    """Architecture, facts and measures by name, for each compiled code of the named kernels."""

    def call(*names):
        for name in names:
            for arch, facts in compiled[name].items():
                yield arch, facts, {m.name: m.value for m in measures(facts)}

    return call


def variant(kernel, arch, wanted):
    """A function of the kernel's file that is not measured."""
    return measured_code(kernels.named(kernel), arch, wanted)


def unspilled(code):
    values = {m.name: m.value for m in measures(Facts(code))}
    assert values["stack_bytes"] == values["local_loads"] == values["local_stores"] == 0, code.name
    return values


def test_every_kernel_with_code_of_its_own_is_looked_at(compiled):
    ours = {"weight_per_thread", "two_launches", *STREAMS}
    known = kernels.registered()
    here = {name for name in compiled if known[name].family.name in ("nf4", "transpose")}
    assert here >= {*TILE_WALKS, *BYTE_WALKS, *ours, *VECTOR_TILES, *TMA}  # and a user's own
    assert set(known) - set(compiled) == {name for name in known if "cublas" in name}
    assert all(compiled[name].keys() == {OURS, *OTHERS} for name in EXAMPLES)


def test_known_digests_are_those_of_the_compiled_code(compiled):
    """The others are compared by `python -m sass recorded --compile`."""
    known = known_codes(OLDER)
    files = [
        file
        for found in compiled.values()
        for f in found.values()
        for file in f.code.files.values()
    ]
    names = {str(f.relative_to(cubin.FOLDER)): f for f in files if f.is_relative_to(cubin.FOLDER)}
    kept = names.keys() & known
    assert {name: known[name] for name in kept} == {n: cubin.digest(names[n]) for n in kept}


def test_nothing_is_spilled_but_a_few_words_where_a_block_limits_registers(compiled, each):
    for _, facts, values in each(*compiled):
        if facts.code.kernel.name in FULL_BLOCKS:
            assert values["stack_bytes"] <= 32
        else:
            unspilled(facts.code)


@pytest.mark.parametrize("arch", SMALL_SHARED_MEMORY)
def test_a_block_fits_where_shared_memory_is_small(arch):
    if arch not in cubin.known_architectures():
        pytest.skip(f"NOT TESTED, this nvcc does not compile for {arch}")
    code = measured_code(kernels.named("few_rows_99kib"), arch)
    threads = 640
    assert -(-code.resources.registers // 8) * 8 * threads <= 65536
    assert code.resources.stack_bytes <= 32 and code.resources.static_shared_bytes == 0
    assert "HMMA" in {i.name for i in code.function.instructions}


@pytest.mark.parametrize("name", LUT)
def test_a_table_kernel_has_no_branch_in_its_loop(each, name):
    """Except the loop's own branch: in an iteration only addresses and values depend on a code."""
    for _, facts, values in each(name):
        assert facts.region.is_loop
        assert values["branches"] == values["convergence_barriers"] == 0
        assert values["weights_per_trip"] == (8 if "TileShape<4" in facts.code.name else 16)
        for way in ("least", "most", "all"):
            assert values[f"look_ups_per_weight.{way}"] == 1
            assert 1 <= values[f"index_per_weight.{way}"] <= 3


def test_the_tree_branches_on_every_code_and_reads_no_table(each):
    trees, tables = list(each("branch_tree")), list(each("shared_lut"))
    assert len(trees) == len(tables) == 1 + len(OTHERS)
    for (_, facts, tree), (_, _, table) in zip(trees, tables, strict=True):
        assert facts.region.is_loop
        assert tree["weights_per_trip"] == 16
        assert tree["branches_may_diverge"] == tree["branches"] >= 2 * 16
        assert tree["convergence_barriers"] >= 16
        assert tree["look_ups_per_weight.all"] == 0
        # The paper says 7 instructions against 2.
        assert tree["index_per_weight.least"] >= 12
        assert table["index_per_weight.most"] <= 2
        # Run by a warp whose threads take every path, and by one thread.
        assert table["instructions_per_weight.all"] < 0.45 * tree["instructions_per_weight.all"]
        assert table["instructions_per_weight.all"] < 0.70 * tree["instructions_per_weight.least"]
        # The table's bytes.
        assert table["static_shared_bytes"] - tree["static_shared_bytes"] == 64


def test_the_tree_of_constant_memory_differs_in_its_leaves_alone(each):
    """Each leaf reads its own address: none that a code selects, as in a look-up."""
    controls = list(each("branch_tree_constant"))
    archs = [arch for arch, *_ in controls]
    assert archs == [OURS, PAPERS][: 1 + ALL]
    trees = sorted(
        (t for t in each("branch_tree") if t[0] in archs), key=lambda t: archs.index(t[0])
    )
    for (_, literals, tree), (_, facts, values) in zip(trees, controls, strict=True):
        for same in ("weights_per_trip", "branches", "convergence_barriers"):
            assert values[same] == tree[same]
        assert not constants_of(literals)
        addresses = Counter(constants_of(facts))
        assert len(addresses) == 16 and set(addresses.values()) == {16}
        assert not any("R" in address.replace("RZ", "") for address in addresses)


def constants_of(facts):
    """The addresses in the bank of __constant__ variables that instructions in the loop read."""
    matches = [re.search(r"c\[0x3\]\[([^]]*)\]", str(i)) for i in facts.inside]
    return [match[1] for match in matches if match]


def test_the_tile_walk_stores_one_weight_at_a_time_and_keeps_its_registers(each):
    """Through shared memory, and so coalesced, but 2 bytes per thread and instruction."""
    for arch, facts, values in each(*TILE_WALKS):
        stores = of(facts.inside, GLOBAL_STORES)
        assert [store.width_bytes for store in stores] == [2] * facts.elements
        assert values["registers"] <= TILE_WALK_REGISTERS[arch]


def test_a_byte_walk_decodes_two_weights_of_each_byte(each):
    for name, (weights, store_bytes) in BYTE_WALKS.items():
        for _, facts, values in each(name):
            assert facts.region.is_loop == (name == "warp_per_block")
            assert values["weights_per_trip"] == weights
            assert values["look_ups_per_weight.most"] == 1
            assert values["widest_global_store_bytes"] == store_bytes
            assert values["registers"] <= 20 or name in HOLDING


@pytest.mark.parametrize("scales", ["Plain", "Nested"])
@pytest.mark.parametrize("out", ["__half", "__nv_bfloat16"])
def test_variants_of_the_byte_walk(scales, out):
    wanted = f"unsigned int, {scales}ScaleReader, {out}"
    # Registers are held for the occupancy that the post describes.
    for name, (threads, blocks) in HOLDING.items():
        registers = unspilled(variant(name, OURS, wanted))["registers"]
        allocated = -(-registers // 8) * 8  # per thread
        assert 65536 // (allocated * threads) == blocks
    # Only one form stores before everything is loaded.
    for name, is_after in (("packed_512", False), ("packed_512_store_each", True)):
        instructions = variant(name, OURS, wanted).function.instructions
        loads = [i.address for i in of(instructions, GLOBAL_LOADS)]
        stores = [i.address for i in of(instructions, GLOBAL_STORES)]
        assert (max(loads) > min(stores)) == is_after, name


def test_plain_scales_are_read_alike_with_and_without_the_published_rounding(compiled):
    ours, published = (
        [str(i) for i in compiled[name][OURS].everywhere]
        for name in ("packed_512", "packed_512_as_published")
    )
    assert ours == published


@pytest.mark.parametrize("arch", [OURS, PAPERS][: 1 + ALL])
def test_a_nested_scale_is_never_contracted(arch):
    """The published kernel is the counterexample."""

    def has_it(name, wanted):
        return "FFMA" in {i.name for i in variant(name, arch, wanted).function.instructions}

    assert not has_it("packed_512", NESTED) and not has_it("shared_lut", NESTED)
    assert not has_it("streaming", f"StreamShape<512, 2, {HINTS}, true, {NESTED}")
    assert has_it("packed_512_as_published", FUSED)


def test_a_streaming_walk_stores_8_weights_at_a_time(each):
    for name, weights in STREAMS.items():
        for _, _, values in each(name):
            assert values["weights_per_trip"] == weights
            assert values["widest_global_store_bytes"] == 16
            assert values["wide_global_stores"] == weights // 8
            # One exchange for the table and, if a thread has several words, one for each word's
            # scale.
            exchanges = 1 if weights > 8 else 0
            assert values["look_ups_per_weight.most"] == 1 + exchanges / 8


def test_requests_to_the_caches_are_what_the_second_wide_store_adds(compiled):
    for name, added in (("wide_store", set()), ("wide_store_hints", {"EF"})):
        for facts in compiled[name].values():
            for instruction in ("LDG", "STG"):
                accesses = [i for i in facts.everywhere if i.name == instruction]
                marks = {mark for i in accesses for mark in ("EF", "NA") if f".{mark}" in str(i)}
                assert marks == added


HINTS = "StreamingAccess, StreamingAccess, 524288, 8192>"
NOTHING_AHEAD = HINTS.replace("524288", "0")
STREAM_SHAPES = [
    (f"64, 4, {NOTHING_AHEAD}", "Plain"),
    (f"128, 8, {NOTHING_AHEAD}", "Plain"),
    (f"512, 1, {HINTS}", "Plain"),
    (f"1024, 1, {HINTS}", "Plain"),
    (f"256, 4, {NOTHING_AHEAD}", "Nested"),
    (f"128, 8, {NOTHING_AHEAD}", "Nested"),
    (f"512, 2, {HINTS}", "Nested"),
]
STREAM_TYPES = [
    ("unsigned int", "__half"),
    ("unsigned int", "__nv_bfloat16"),
    ("unsigned long", "__half"),
]
STREAMS_COMPILED = [
    (f"{shape}, true", index, scales, out)
    for shape, scales in STREAM_SHAPES
    for index, out in STREAM_TYPES
] + [
    (f"{shape}, false", "unsigned int", scales, "__half")
    for shape in (f"64, 4, {NOTHING_AHEAD}", f"128, 8, {NOTHING_AHEAD}", f"512, 2, {HINTS}")
    for scales in ("Plain", "Nested")
]


@pytest.mark.parametrize("arch", [OURS, *OTHERS])
def test_streaming_stores_16_bytes(arch):
    for shape, index, scales, out in STREAMS_COMPILED:
        name = f"StreamShape<{shape}, {index}, {scales}ScaleReader, {out}"
        code = variant("streaming", arch, name)
        values, words = unspilled(code), int(shape.split(", ")[1])
        assert values["wide_global_stores"] == words
        assert values["widest_global_load_bytes"] == 4
        if shape.endswith("false"):
            continue
        assert values["weights_per_trip"] == 8 * words
        # A table entry per weight, and a map entry per load of scales, for up to 4 words; and those
        # of a weight that is in no word.
        nested = scales == "Nested"
        assert values["shared_loads"] == 8 * words + nested * (words // min(words, 4)) + 1 + nested
        # The maximum number of threads is resident on a multiprocessor.
        most = {"sm_75": 64, "sm_89": 40}.get(arch, 32)
        assert values["registers"] <= most or index == "unsigned long"
        if arch == "sm_75" and out == "__nv_bfloat16":
            continue  # rounds in software
        # From the barrier to the end there is one path, except the wait for a map in a bulk copy.
        instructions = code.function.instructions
        barrier = max(at for at, i in enumerate(instructions) if i.name == "BAR")
        after = instructions[barrier:]
        end = next(at for at, i in enumerate(after) if i.name == "EXIT" and not i.guard)
        branches = [i.name for i in after[:end] if i.name in ("BRA", "BSSY", "BRX")]
        assert branches == ["BRA"] * (nested and arch not in WITHOUT_ACCELERATOR)
        assert len(of(after[:end], GLOBAL_STORES)) == words


def test_transposes_move_16_bytes_at_a_time_or_a_tile(each):
    for _, facts, _ in each(*VECTOR_TILES):
        assert facts.elements == 16
        for names in (GLOBAL_LOADS, GLOBAL_STORES):
            assert {i.width_bytes for i in of(facts.inside, names)} == {16}
        assert len(of(facts.inside, GLOBAL_STORES)) == 4
    for arch, facts, _ in each(*TMA):
        if arch in WITHOUT_ACCELERATOR:
            assert facts.elements == 0
            continue
        assert facts.elements == (8 if "batched" in facts.code.kernel.name else 1)
        assert len(of(facts.inside, BULK_STORES)) == 1
        assert not of(facts.inside, GLOBAL_STORES)


@pytest.mark.parametrize("name", ["branch_tree", "packed_512", "streaming", "tma_batched"])
def test_blocks_and_jumps_are_those_that_nvdisasm_sees(compiled, name):
    for arch, facts in compiled[name].items():
        code, blocks = facts.code, facts.code.flow.blocks
        file = cubin.compiled(code.kernel.source, arch)
        graph = tools.output_of([tools.program("nvdisasm"), "-bbcfg", "-poff", file])
        theirs = edges_in(graph, code.function.name)
        for block in blocks.values():
            onward = {blocks[s].instructions[0].address for s in block.successors}
            assert onward == theirs[block.last.address]
            for instruction in block.instructions[:-1]:  # nvdisasm cuts blocks at labels, too
                at = instruction.address
                assert theirs.get(at, {at + 16}) == {at + 16}


def edges_in(graph: str, name: str) -> dict[int, set[int]]:
    """By the address of a block's last instruction, the addresses at which it may go on."""
    (part,) = re.findall(rf'subgraph "cluster_{name}" {{\n(.*?)\n}}', graph, re.S)
    labels = re.findall(r'^"([^"\n]+)"\n\[label="(.*)"\]$', part, re.MULTILINE)
    places = {n: [int(a, 16) for a in re.findall(r"([0-9a-f]{4,}):\\ ", t)] for n, t in labels}
    edges = {addresses[-1]: set() for addresses in places.values() if addresses}
    for start, end in re.findall(r'^"([^"]+)":\w+:\w -> "([^"]+)":\w+:\w', part, re.MULTILINE):
        edges[places[start][-1]].add(places[end][0])
    return edges


def test_lines_change_no_instruction(compiled):
    plain = compiled["packed_512"][OURS].code
    code = measured_code(plain.kernel, plain.arch, lines=True)
    assert code.sha256 == plain.sha256
    ours, theirs = code.function.instructions, plain.function.instructions
    assert [str(i) for i in ours] == [str(i) for i in theirs]
    assert all(i.frames for i in ours[:10]) and not any(i.frames for i in theirs)
    files = {frame.file for i in ours for frame in i.frames}
    assert {str(ROOT / "kernels/nf4" / name) for name in ("byte_walk.cuh", "format.hpp")} <= files
