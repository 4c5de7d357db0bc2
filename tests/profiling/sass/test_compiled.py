"""What the compiler makes of every kernel, on every architecture of PRESET=all-archs.

Needs nvcc, and no GPU. Each file is compiled once per architecture, into build/sass/. Pinned is
what the documents and the claims rest on; where the compiler may decide, a bound.
"""

import re

import pytest
from sass import cubin, kernels, tools
from sass.code import Code, measured_code, measured_codes
from sass.facts import BULK_STORES, GLOBAL_LOADS, GLOBAL_STORES, Facts, of, widest
from sass.measures import measures
from sass.parse import parse

from records.errors import InputError
from records.json_files import ROOT

try:
    tools.require_all()
    cubin.build_commands()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

ARCHITECTURES = cubin.architectures()
WITHOUT_ACCELERATOR = ["sm_75", "sm_80", "sm_89"]
LUT = [
    *("constant_lut", "global_lut", "warp_shuffle_lut", "shared_lut", "shared_lut_cooperative"),
    *("shared_lut_immediates", "shared_lut_tile512", "shared_lut_algorithm1"),
]
TILE_WALKS = ["branch_tree", *LUT]
# Of the post: with the weights that a thread decodes, and the bytes of its stores.
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
# Of those that hold registers, the blocks that 64 warps' multiprocessors have registers for.
HOLDING = {"packed_512_registers": (512, 3), "packed_1024_registers": (1024, 1)}
# One block fills a multiprocessor, and leaves a thread 128 or 168 registers.
FULL_BLOCKS = ["few_rows", "few_rows_exact", "many_rows", "many_rows_exact"]
# Kernels of the streaming walk, with the weights that a thread decodes.
STREAMS = {
    "wide_store": 8,
    "wide_store_hints": 8,
    "wide_store_unrolled": 16,
    "streaming": 8,
}
VECTOR_TILES = ["tiled", "column_walk", "column_walk_plain_reads", "column_walk_six_blocks"]
TMA = ["tma_naive", "tma_swizzle", "tma_batched", "tma_batched_as_published"]
# Of bitsandbytes' walk, per thread; kernels/nf4/tile_walk.cuh says what they cost.
TILE_WALK_REGISTERS = {"sm_75": 64, "sm_80": 56, "sm_89": 48, "sm_90": 48, "sm_100": 40}


NESTED = "unsigned int, NestedScaleReader, __half"
FUSED = "unsigned int, FusedNestedScaleReader, __half"


def names_in(kernel: str, arch: str, wanted: str) -> set[str]:
    found = measured_code(kernels.named(kernel), arch, wanted)
    return {i.name for i in found.function.instructions}


@pytest.fixture(scope="session")
def codes() -> dict[tuple[str, str], Code]:
    found = measured_codes(kernels.registered().values(), ARCHITECTURES)
    return {(code.kernel.name, code.arch): code for code in found}


@pytest.fixture(params=ARCHITECTURES)
def arch(request) -> str:
    return request.param


@pytest.fixture
def facts(codes, arch):
    return lambda name: Facts(codes[name, arch])


@pytest.fixture
def counts(facts):
    """The measures of a kernel, by name."""
    return lambda name: {m.name: m.value for m in measures(facts(name))}


def test_every_kernel_with_code_of_its_own_is_looked_at(codes):
    compiled = {name for name, _ in codes}
    ours = {"weight_per_thread", "two_launches", *STREAMS}
    known = kernels.registered()
    here = {name for name in compiled if known[name].family.name in ("nf4", "transpose")}
    assert here == {*TILE_WALKS, *BYTE_WALKS, *ours, *VECTOR_TILES, *TMA}
    assert set(known) - compiled == {name for name in known if "cublas" in name}


def test_nothing_is_spilled_but_a_few_words_where_a_block_limits_registers(codes):
    for place, code in codes.items():
        found = {m.name: m.value for m in measures(Facts(code))}
        kept = [found[name] for name in ("stack_bytes", "local_loads", "local_stores")]
        if place[0] in FULL_BLOCKS:
            assert kept[0] <= 32, place
        else:
            assert kept == [0, 0, 0], place


@pytest.mark.parametrize("name", LUT)
def test_a_table_kernel_has_no_branch_in_its_loop(counts, facts, name):
    """Apart from the loop's own: nothing in a trip depends on a code but addresses and values."""
    found = counts(name)
    assert facts(name).region.is_loop
    assert found["branches"] == found["convergence_barriers"] == 0
    assert found["weights_per_trip"] == (8 if "TileShape<4" in facts(name).code.name else 16)
    for way in ("least", "most", "all"):
        assert found[f"look_ups_per_weight.{way}"] == 1
        assert 1 <= found[f"index_per_weight.{way}"] <= 3


def test_the_tree_branches_on_every_code_and_reads_no_table(counts, facts):
    tree, table = counts("branch_tree"), counts("shared_lut")
    assert facts("branch_tree").region.is_loop
    assert tree["weights_per_trip"] == 16
    assert tree["branches_may_diverge"] == tree["branches"] >= 2 * 16
    assert tree["convergence_barriers"] >= 16
    assert tree["look_ups_per_weight.all"] == 0
    # The paper says 7 instructions against 2.
    assert tree["index_per_weight.least"] >= 12
    assert table["index_per_weight.most"] <= 2
    # As a warp runs them whose threads take every way, and as one thread does.
    assert table["instructions_per_weight.all"] < 0.45 * tree["instructions_per_weight.all"]
    assert table["instructions_per_weight.all"] < 0.70 * tree["instructions_per_weight.least"]


@pytest.mark.parametrize("name", TILE_WALKS)
def test_cub_stores_one_weight_at_a_time(facts, name):
    """Through shared memory, and so coalesced, but 2 bytes per thread and instruction."""
    stores = of(facts(name).inside, GLOBAL_STORES)
    assert [found.width_bytes for found in stores] == [2] * facts(name).elements


@pytest.mark.parametrize("name", TILE_WALKS)
def test_registers_of_the_tile_walk(facts, arch, name):
    assert facts(name).code.resources.registers <= TILE_WALK_REGISTERS[arch]


def test_the_table_takes_64_bytes_of_shared_memory(facts):
    sizes = {name: facts(name).code.resources.static_shared_bytes for name in TILE_WALKS}
    assert sizes["shared_lut"] - sizes["branch_tree"] == 64


@pytest.mark.parametrize("name", BYTE_WALKS)
def test_a_byte_walk_decodes_two_weights_of_each_byte(counts, facts, name):
    found = counts(name)
    weights, store_bytes = BYTE_WALKS[name]
    assert facts(name).region.is_loop == (name == "warp_per_block")
    assert found["weights_per_trip"] == weights
    assert found["look_ups_per_weight.most"] == 1
    assert found["widest_global_store_bytes"] == store_bytes
    assert found["registers"] <= 20 or name in HOLDING


@pytest.mark.parametrize("name", HOLDING)
@pytest.mark.parametrize("scales", ["Plain", "Nested"])
@pytest.mark.parametrize("out", ["__half", "__nv_bfloat16"])
def test_registers_are_held_for_the_occupancy_that_the_post_describes(arch, name, scales, out):
    if arch == "sm_75":
        pytest.skip("its multiprocessors hold 1024 threads")
    code = measured_code(kernels.named(name), arch, f"unsigned int, {scales}ScaleReader, {out}")
    found = {m.name: m.value for m in measures(Facts(code))}
    assert found["stack_bytes"] == found["local_loads"] == found["local_stores"] == 0
    threads, blocks = HOLDING[name]
    given_out = -(-found["registers"] // 8) * 8  # to each thread
    assert 65536 // (given_out * threads) == blocks


@pytest.mark.parametrize("out", ["__half", "__nv_bfloat16"])
@pytest.mark.parametrize("scales", ["Plain", "Nested"])
def test_only_one_form_stores_before_everything_is_loaded(arch, scales, out):
    wanted = f"unsigned int, {scales}ScaleReader, {out}"
    for name, is_after in (("packed_512", False), ("packed_512_store_each", True)):
        code = measured_code(kernels.named(name), arch, wanted)
        instructions = code.function.instructions
        loads = [i.address for i in of(instructions, GLOBAL_LOADS)]
        stores = [i.address for i in of(instructions, GLOBAL_STORES)]
        assert (max(loads) > min(stores)) == is_after, name


def test_plain_scales_are_read_alike_with_and_without_the_published_rounding(codes, arch):
    ours, published = codes["packed_512", arch], codes["packed_512_as_published", arch]
    assert [str(i) for i in ours.function.instructions] == [
        str(i) for i in published.function.instructions
    ]


@pytest.mark.parametrize("name", ["packed_512", "streaming", "shared_lut"])
def test_a_nested_scale_is_never_contracted(arch, name):
    """The published kernel shows what it would look like."""
    measured = f"StreamShape<512, 2, {HINTS}, true, " * (name == "streaming")
    assert "FFMA" not in names_in(name, arch, measured + NESTED)
    assert "FFMA" in names_in("packed_512_as_published", arch, FUSED)


@pytest.mark.parametrize("name", STREAMS)
def test_a_streaming_walk_stores_8_weights_at_a_time(counts, name):
    found = counts(name)
    assert found["weights_per_trip"] == STREAMS[name]
    assert found["widest_global_store_bytes"] == 16
    assert found["wide_global_stores"] == STREAMS[name] // 8
    # Of the table; and where a thread has several words, one exchange for the scale of each.
    exchanges = 1 if STREAMS[name] > 8 else 0
    assert found["look_ups_per_weight.most"] == 1 + exchanges / 8


def test_requests_to_the_caches_are_what_the_second_wide_store_adds(codes, arch):
    def requests(name, instruction):
        found = [i for i in codes[name, arch].function.instructions if i.name == instruction]
        return {mark for i in found for mark in ("EF", "NA") if f".{mark}" in str(i)}

    assert requests("wide_store", "LDG") == requests("wide_store", "STG") == set()
    assert requests("wide_store_hints", "LDG") == requests("wide_store_hints", "STG") == {"EF"}


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


@pytest.mark.parametrize("shape, index, scales, out", STREAMS_COMPILED)
def test_streaming_stores_16_bytes(arch, shape, index, scales, out):
    name = f"StreamShape<{shape}, {index}, {scales}ScaleReader, {out}"
    code = measured_code(kernels.named("streaming"), arch, name)
    found = {m.name: m.value for m in measures(Facts(code))}
    assert found["stack_bytes"] == found["local_loads"] == found["local_stores"] == 0
    words = int(shape.split(", ")[1])
    assert found["wide_global_stores"] == words
    assert found["widest_global_load_bytes"] == 4
    if shape.endswith("false"):
        return
    assert found["weights_per_trip"] == 8 * words
    # A table entry per weight, and a map entry per load of scales, which serves up to 4 words; and
    # those of a weight that is in no word.
    nested = scales == "Nested"
    assert found["shared_loads"] == 8 * words + nested * (words // min(words, 4)) + 1 + nested
    # As many threads are resident as a multiprocessor takes.
    most = {"sm_75": 64, "sm_89": 40}.get(arch, 32)
    assert found["registers"] <= most or index == "unsigned long"
    if arch == "sm_75" and out == "__nv_bfloat16":
        return  # rounds in software
    # From the barrier to the end, there is one way, but for the wait for a map in a bulk copy.
    instructions = code.function.instructions
    barrier = max(at for at, i in enumerate(instructions) if i.name == "BAR")
    after = instructions[barrier:]
    end = next(at for at, i in enumerate(after) if i.name == "EXIT" and not i.guard)
    branches = [i.name for i in after[:end] if i.name in ("BRA", "BSSY", "BRX")]
    assert branches == ["BRA"] * (nested and arch not in WITHOUT_ACCELERATOR)
    assert len(of(after[:end], GLOBAL_STORES)) == words


@pytest.mark.parametrize("name", VECTOR_TILES)
def test_tiles_are_loaded_and_stored_16_bytes_at_a_time(facts, name):
    found = facts(name)
    assert found.elements == 16
    for names in (GLOBAL_LOADS, GLOBAL_STORES):
        assert {i.width_bytes for i in of(found.inside, names)} == {16}
    assert len(of(found.inside, GLOBAL_STORES)) == 4


@pytest.mark.parametrize("name", TMA)
def test_the_accelerator_stores_a_tile_where_there_is_one(facts, arch, name):
    found = facts(name)
    if arch in WITHOUT_ACCELERATOR:
        assert found.elements == 0
        return
    assert found.elements == (8 if "batched" in name else 1)
    assert len(of(found.inside, BULK_STORES)) == 1
    assert widest(of(found.inside, GLOBAL_STORES)) == 0


@pytest.mark.parametrize("name", ["branch_tree", "scalar_store", "column_walk", "tma_batched"])
def test_blocks_and_jumps_are_those_that_nvdisasm_sees(codes, arch, name):
    code = codes[name, arch]
    file = cubin.compiled(code.kernel.source, arch)
    graph = tools.output_of([tools.nvdisasm(), "-bbcfg", "-poff", file])
    theirs = edges_in(graph, code.function.name)
    blocks = code.flow.blocks
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
    found = {addresses[-1]: set() for addresses in places.values() if addresses}
    for start, end in re.findall(r'^"([^"]+)":\w+:\w -> "([^"]+)":\w+:\w', part, re.MULTILINE):
        found[places[start][-1]].add(places[end][0])
    return found


def test_lines_change_no_instruction(codes, tmp_path):
    code = codes["shared_lut", "sm_80"]
    folder, command = cubin.command_for(code.kernel.source, code.arch)
    plain = tmp_path / "plain.cubin"
    without = [word for word in command if word != "-lineinfo"]
    assert len(without) == len(command) - 1
    tools.output_of([*without, "-o", plain], folder)
    text = tools.output_of([tools.nvdisasm(), "--print-code", plain])
    ours, theirs = code.function.instructions, parse(text, code.function.name).instructions
    assert [str(i) for i in ours] == [str(i) for i in theirs]
    assert all(i.frames for i in ours[:10]) and not any(i.frames for i in theirs)
    files = {frame.file for i in ours for frame in i.frames}
    assert {str(ROOT / "kernels/nf4" / name) for name in ("tile_walk.cuh", "format.hpp")} <= files


def test_a_cubin_is_compiled_once(codes):
    source = kernels.named("shared_lut").source
    file = cubin.compiled(source, "sm_80")
    before = file.stat().st_mtime_ns
    assert cubin.compiled(source, "sm_80") == file
    assert file.stat().st_mtime_ns == before
    assert [file] == list(file.parent.glob("nf4-shared_lut-*"))
