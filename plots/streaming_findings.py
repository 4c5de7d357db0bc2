"""What the run says in sentences: the least and the most of what the tables show."""

from collections.abc import Callable

from claims.stats import significant
from plots.bandwidth import Measured, compared
from plots.experiments import Run
from plots.streaming_formats import BLOCK_SIZE, TYPES, aligned, formats, places
from plots.streaming_layers import (
    LARGE,
    LARGE_NESTED,
    compared_with,
    is_large,
    layers,
)
from plots.streaming_rows import OURS, SCALES, Rows, change, place_text, shape_text, untimed
from plots.streaming_shapes import fastest, swept

Found = dict[str, float]  # by where it was seen


def extreme(pick: Callable[..., str], found: Found) -> str:
    """The place of the least or the most."""
    return pick(found, key=lambda where: found[where])


def large(run: Run, name: str, wanted: bool = True) -> dict[str, Rows]:
    """The large layers on which our kernel has a time; not `wanted`: the others."""
    found = layers(run, name).items()
    kept = {shape_text(key): rows for key, rows in found if is_large(key, name) is wanted}
    return {text: r for text, r in kept.items() if OURS in r and r[OURS].record.ranked}


def least_over(found: dict[str, Rows], kernels: list[str]) -> list[str]:
    """'3.51 times branch_tree (36864x4608)', for each kernel that was timed."""
    parts = []
    for kernel in kernels:
        ratios = {
            text: e.value
            for text, rows in found.items()
            if (e := compared(rows.get(kernel), rows[OURS]))
        }
        if ratios:
            where = extreme(min, ratios)
            parts.append(f"{ratios[where]:.2f} times as fast as {kernel} ({where})")
    return parts


def large_layers(run: Run) -> str:
    rows, parts = large(run, "layers"), []
    shares = {text: s for text, r in rows.items() if (s := r[OURS].of_copy) is not None}
    limits = {text: s for text, r in rows.items() if (s := r[OURS].of_ceiling) is not None}
    for found, what in ((shares, "of cudaMemcpy"), (limits, "of the fastest ceiling")):
        if found:
            where = extreme(min, found)
            parts.append(f"{100 * found[where]:.1f} % {what} ({where})")
    parts += least_over(rows, compared_with(run, "layers"))
    limit = f"{LARGE / 1e6:.0f} million weights"
    return f"Layers of {limit} and more, at least: {', '.join(parts)}." if parts else ""


def smaller_layers(run: Run) -> str:
    parts = least_over(large(run, "layers", False), compared_with(run, "layers"))
    return f"Smaller layers, at least: {', '.join(parts)}." if parts else ""


def large_nested_layers(run: Run) -> str:
    plain, parts = layers(run, "layers"), []
    by_text = {shape_text(key): rows.get(OURS) for key, rows in plain.items()}
    times = {
        text: e.value
        for text, rows in large(run, "layers_nested").items()
        if (e := compared(rows[OURS], by_text.get(text)))
    }
    if times:
        where = extreme(max, times)
        parts.append(f"at most {times[where]:.3f} times as long as with plain ones ({where})")
    least = least_over(large(run, "layers_nested"), compared_with(run, "layers_nested"))
    parts += [f"at least {', '.join(least)}"] * bool(least)
    limit = f"{LARGE_NESTED / 1e6:.0f} million weights"
    return f"Nested scales, layers of {limit} and more: {'; '.join(parts)}." if parts else ""


def small_matrix(run: Run) -> str:
    """The smallest matrix of the places, aligned: of its fastest ceiling, and nested of plain."""
    parts, name = [], ""
    timed: dict[str, Measured] = {}
    for end, scales in SCALES.items():
        found = places(run, f"places{end}")
        smallest = min((key for key in found if aligned(key[:3]) == key), default=None)
        m = found.get(smallest) if smallest else None
        if smallest and m and m.record.ranked and m.of_ceiling is not None and m.ceiling:
            name, timed[scales] = shape_text(smallest), m
            share = f"{100 * m.of_ceiling:.1f} % of {m.ceiling.kernel}"
            parts.append(f"{share} with {scales} scales")
    over_plain = compared(timed.get("nested"), timed.get("plain"))
    longer = f", which take {over_plain.value:.3f} times as long" if over_plain else ""
    return f"{name}, of its fastest ceiling: {', '.join(parts)}{longer}." if parts else ""


def block_sizes(run: Run) -> str:
    found = formats(run)
    apart = {
        f"{shape_text(key)} {key[4]} at {key[3]}": percent
        for key, m in found.items()
        if key[3] != BLOCK_SIZE
        and (percent := change(m, found.get((*key[:3], BLOCK_SIZE, key[4])))) is not None
    }
    return farthest(f"Block sizes, GB/s against those at {BLOCK_SIZE}", apart)


def types(run: Run) -> str:
    found, (base, other) = formats(run), TYPES
    apart = {
        f"{shape_text(key)} at {key[3]}": percent
        for key, m in found.items()
        if key[4] == other and (percent := change(m, found.get((*key[:4], base)))) is not None
    }
    return farthest(f"{other}, GB/s against {base}", apart)


def wherever(run: Run) -> str:
    apart = {}
    for end, scales in SCALES.items():
        found = places(run, f"places{end}")
        for key, m in found.items():
            percent = change(m, found.get(aligned(key[:3])))
            if key != aligned(key[:3]) and percent is not None:
                apart[f"{place_text(key)}, {scales}"] = percent
    if not apart:
        return ""
    where = extreme(min, apart)
    return (
        f"Offsets and odd sizes, GB/s against the aligned matrix: at worst {apart[where]:+.1f} % "
        f"({where}), of {len(apart)}."
    )


def farthest(what: str, apart: Found) -> str:
    """From 0, in percent."""
    if not apart:
        return ""
    where = max(apart, key=lambda place: abs(apart[place]))
    return f"{what}: within {abs(apart[where]):.1f} % (farthest: {where}, {apart[where]:+.1f} %)."


def choices(run: Run) -> str:
    """How often the kernel chooses the fastest shape, and the most that it loses by its choice."""
    right, lost = 0, {}
    for end, scales in SCALES.items():
        for key, found in swept(run, f"shapes{end}").items():
            best, chosen = fastest(found), found.get(OURS)
            slower = compared(chosen, best[0]) if best else None
            if slower is None:
                continue
            right += not slower.low > 1
            where = f"{place_text(key)}, {scales}: {best[0].record.kernel}"
            lost[where] = 100 * (slower.value - 1)
    if not lost:
        return ""
    where = extreme(max, lost)
    return (
        f"The shape chosen in kernels/nf4/streaming.cu is the fastest, or not told apart from it, "
        f"in {right} of {len(lost)} cases; most lost: {significant(lost[where], 2)} % ({where})."
    )


def missing(run: Run) -> str:
    """Where there is nothing to say anything from."""
    found = list(untimed(run))
    more = f" ({len(found) - 1} more such rows.)" if len(found) > 1 else ""
    return f"NO TIME of {OURS}: {found[0]}.{more}" if found else ""
