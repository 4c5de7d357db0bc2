"""NF4's codebook on normal weights: the frequencies of codes, and the error.

The weights are those that NF4 is designed for: normal, in blocks of 64, each scaled by its largest
weight. The code is QLoRA's (arXiv 2305.14314): quantiles of the normal distribution.
"""

from functools import cache
from statistics import NormalDist

import numpy as np

BLOCK, BLOCKS, SEED = 64, 40_000, 1
BINS = 20_000  # of the scaled weights' density, from -1 to 1
OFFSET = 0.9677083  # of the outermost quantile
ROUNDS = 300  # of Lloyd and Max's algorithm, after which the error no longer falls


@cache
def nf4() -> np.ndarray:
    """The 16 values, the smallest first."""
    quantile = NormalDist().inv_cdf
    negative = [-quantile(p) for p in np.linspace(OFFSET, 0.5, 8)[:-1]]
    positive = [quantile(p) for p in np.linspace(OFFSET, 0.5, 9)[:-1]]
    values = np.sort([*negative, 0.0, *positive])
    return values / values.max()


@cache
def density() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of the bins, the share of weights in each, and that share weighted by the squares of
    the blocks' scales: an error of a scaled weight is multiplied by the scale in the weight.
    """
    blocks = np.random.default_rng(SEED).standard_normal((BLOCKS, BLOCK))
    scales = np.abs(blocks).max(axis=1, keepdims=True)
    scaled, squares = (blocks / scales).ravel(), np.broadcast_to(scales**2, blocks.shape).ravel()
    counts, edges = np.histogram(scaled, BINS, (-1, 1))
    weighted, _ = np.histogram(scaled, BINS, (-1, 1), weights=squares)
    return (edges[:-1] + edges[1:]) / 2, counts / counts.sum(), weighted / counts.sum()


def codes_of(values: np.ndarray) -> np.ndarray:
    """The nearest value of each bin."""
    return np.searchsorted((values[:-1] + values[1:]) / 2, density()[0])


def error_of(values: np.ndarray) -> float:
    middles, _, shares = density()
    return float((shares * (middles - values[codes_of(values)]) ** 2).sum())


def nf4_error() -> float:
    return error_of(nf4())


@cache
def least_error(kept: tuple[float, ...] = ()) -> float:
    """For the best 16 values, or the best that keep some; the search starts from NF4's."""
    middles, _, shares = density()
    values = nf4()
    stays = np.isin(values, kept)
    for _ in range(ROUNDS):
        codes = codes_of(values)
        weights = np.bincount(codes, shares, len(values))
        sums = np.bincount(codes, shares * middles, len(values))
        moved = np.where(weights > 0, sums / np.maximum(weights, 1e-30), values)
        values = np.where(stays, values, moved)
    return error_of(values)


def code_shares() -> list[float]:
    shares = np.bincount(codes_of(nf4()), density()[1], len(nf4()))
    return [float(share) for share in shares]
