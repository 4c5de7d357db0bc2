"""What tables of experiment transpose derive from its rows and the post's numbers."""

import pandas as pd

from plots.frame import ratios_of
from reprolab.claims.published import Source, load_sources
from reprolab.families import described
from reprolab.families import kernels as kernels_of

ALIGNMENTS = {64: "multiples of 64", 4: "other multiples of 4", 1: "not multiples of 4"}
SUMMARY_FROM = 1000  # rows; smaller matrices measure the launch


def post() -> Source:
    return next(source for source in load_sources() if source.id == "transpose_blog")


def published() -> dict[str, dict[str, float]]:
    """The post's GB/s in CUDA and in Mojo by our kernels, which its setup names."""
    ours = post().setup["our_kernels"]
    tables = {name: post().tables[name] for name in ("cuda_gb_s", "mojo_gb_s")}
    return {
        name: {ours[name][row]: gb_s for row, gb_s in table.items() if row in ours[name]}
        for name, table in tables.items()
    }


def matrix(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The rows on random values, with the outcome on a constant and the post's bandwidths."""
    posts, constant = published(), rows[rows.data == "constant"].set_index("kernel").outcome
    constant = constant[~constant.index.duplicated()]
    random = rows[rows.data == "random"].copy()
    random["on_constant"] = random.kernel.map(constant.str.replace("_", " ")).fillna("not run")
    random["wrong_elements"] = random.mismatches.astype(float)
    for language in ("cuda", "mojo"):
        random[f"post_{language}"] = random.kernel.map(posts[f"{language}_gb_s"])
    return random


def languages(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Each kernel in Mojo with its counterpart in CUDA: how many times the bandwidth."""
    known = kernels_of(described().values())
    random = rows[rows.data == "random"]
    pairs = random.assign(
        counterpart=[known[k].counterpart if k in known else "" for k in random.kernel]
    )
    mojo, cuda = pairs[pairs.counterpart != ""], random.set_index("kernel")
    mojo = mojo[mojo.counterpart.isin(cuda.index)].copy()
    of_cuda = cuda.loc[mojo.counterpart]
    mojo["cuda_gb_per_s"] = of_cuda.gb_per_s.to_numpy()
    mojo = mojo.join(ratios_of("mojo_over_cuda", of_cuda.row.set_axis(mojo.index), mojo.row))
    row_of = {kernel: row for row, kernel in post().setup["our_kernels"]["cuda_gb_s"].items()}
    posts = [mojo.counterpart.map(row_of).map(post().tables[f"{x}_gb_s"]) for x in ("mojo", "cuda")]
    return mojo.assign(post_mojo_over_cuda=posts[0] / posts[1])


def alignment(rows: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """The median share of a kernel over the sizes of each alignment, with its range."""
    large = rows[(rows["rows"] >= SUMMARY_FROM) & rows.ranked.astype(bool)].copy()
    names = [next(n for d, n in ALIGNMENTS.items() if size % d == 0) for size in large["rows"]]
    shares = large.assign(alignment=names).groupby(["kernel", "alignment"], sort=False).of_copy
    table = shares.agg(of_copy="median", of_copy_low="min", of_copy_high="max").reset_index()
    return table[table.alignment != ALIGNMENTS[64]]
