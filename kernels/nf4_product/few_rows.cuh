// The product for the few rows of decoding, which is one pass over the codes. few_rows.cu says what
// it is for.
//
// How the work is cut. A block of threads stays on its multiprocessor and owns a range of outputs,
// in tiles of 16, and a range of the inputs, in chunks. Within a chunk a warp owns a slice of
// 8 x 64 inputs for all tiles, so the activations of the slice stay in its registers. The
// codes of a tile and a chunk come through a ring of stages in shared memory, several stages ahead.
// After each tile the warps' sums are added in shared memory, in an order that depends on n and k
// alone: the result does not change from run to run, nor with the other rows of the batch.
//
// In the matrix instruction the weights are the 16 x 16 operand and the activations the 16 x 8 one.
// The order of the inputs in a sum is free, as long as both operands use the same: each of the four
// lanes that share an output takes 16 consecutive weights of a step of 64, in one 8-byte read.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/grid.hpp"
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/sums.cuh"

namespace reprolab::nf4_product {

inline constexpr int tile = 16;  ///< Outputs per tile.
inline constexpr int step = 64;  ///< Inputs per step.
inline constexpr int step_bytes = step / 2;
inline constexpr int max_rows = 16;
inline constexpr int max_stages = 8;
inline constexpr int warp_steps = 8;  ///< Per warp and chunk.
inline constexpr int max_warps = 12;  ///< Such that a thread may have 168 registers.

/// How a product is cut. Nothing that decides the order of a sum depends on m.
struct Cut {
  int warps = 0;        ///< Per block; 0: the problem cannot be cut.
  int chunk_steps = 0;  ///< Per chunk; the last one may have fewer.
  int chunks = 0;       ///< Of the inputs.
  int parts = 0;        ///< Blocks that share a group of outputs, each with its chunks.
  int groups = 0;       ///< Of the outputs; one for each block of a part.
  int stages = 0;       ///< Of the ring.
};

/// What the kernel is given.
struct FewRows {
  const std::uint8_t* codes;
  const void* input;
  const void* bias;
  void* output;
  float* part_sums;    ///< [parts][m][n], if there are several parts
  unsigned* arrivals;  ///< [groups], zero between launches
  std::int64_t n, k;
  int m;
  Cut cut;
  Scales scales;
  nf4::Table table;
};

/// Where things lie in shared memory, in bytes from its beginning.
struct FewRowsLayout {
  int pitch;  ///< Between rows of codes: 32 more than a multiple of 128, for reads without
              ///< conflicts.
  int stage_bytes, barriers, stages, partials, sums, bytes;
  int slice_floats;       ///< Between the partial sums of two warps.
  int outputs_per_group;  ///< At most.

  static constexpr int column_floats = 20;  // of 16 outputs; so that 4 columns use all banks

  __host__ __device__ FewRowsLayout(const Cut& cut, std::int64_t n, int columns) {
    pitch = (cut.chunk_steps * step_bytes + 127) / 128 * 128 + 32;
    stage_bytes = tile * pitch;
    slice_floats = columns * column_floats + 8;
    const int outputs = static_cast<int>((n + cut.groups - 1) / cut.groups);
    const int kept_sums = cut.chunks > cut.parts ? (outputs + tile - 1) / tile * tile * columns : 0;
    barriers = table_rows * row_bytes;
    partials = barriers + max_stages * 8;
    sums = partials + 2 * cut.warps * slice_floats * 4;
    stages = (sums + kept_sums * 4 + 127) / 128 * 128;
    // A warp with fewer steps reads past the last row, and multiplies by zero.
    bytes = stages + cut.stages * stage_bytes + cut.warps * warp_steps * step_bytes;
  }
};

/// The codes that a lane takes of a step of an output: 8 bytes, or 4 of each half.
template <int Halves>
struct Codes {
  std::uint32_t word[2];

  __device__ Codes(const unsigned char* step_codes, int quad) {
    if constexpr (Halves == 1) {
      const uint2 both = *reinterpret_cast<const uint2*>(step_codes + quad * 8);
      word[0] = both.x, word[1] = both.y;
    } else {
      word[0] = *reinterpret_cast<const std::uint32_t*>(step_codes + quad * 4);
      word[1] = *reinterpret_cast<const std::uint32_t*>(step_codes + 16 + quad * 4);
    }
  }
};

/// A place in a block's work: a tile of outputs in a chunk of the inputs, and its stage in the
/// ring.
struct Unit {
  int chunk, tile = 0, stage = 0;
  unsigned parity = 0;

  __device__ void next(int tiles, int stages) {
    if (++tile == tiles) tile = 0, ++chunk;
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// `RowTiles`: groups of 8 rows. `Halves`: scales per step of 64; 2 for blocks of 32 weights, whose
/// lanes take 8 weights of each half in place of 16 in a row.
template <class Out, class Decode, int RowTiles, int Halves>
__global__ void __launch_bounds__(max_warps * 32, 1) few_rows(const FewRows work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char shared[];
  const Cut& cut = work.cut;
  const FewRowsLayout layout(cut, work.n, RowTiles * 8);
  auto* const barriers = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const partials = reinterpret_cast<float*>(shared + layout.partials);
  auto* const sums = reinterpret_cast<float*>(shared + layout.sums);
  unsigned char* const stages = shared + layout.stages;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
  const int part = blockIdx.x % cut.parts, group = blockIdx.x / cut.parts;
  const std::int64_t first_output = work.n * group / cut.groups;
  const int outputs = static_cast<int>(work.n * (group + 1) / cut.groups - first_output);
  const int tiles = (outputs + tile - 1) / tile;
  const int first_chunk = cut.chunks * part / cut.parts;
  const int end_chunk = cut.chunks * (part + 1) / cut.parts;
  const int all_steps = static_cast<int>(work.k / step);
  const auto steps_in = [&](int chunk) {
    return min(cut.chunk_steps, all_steps - chunk * cut.chunk_steps);
  };
  // The first weight of an output's row in a chunk.
  const auto first_weight = [&](int chunk, int output) {
    return (first_output + output) * work.k + std::int64_t{chunk} * cut.chunk_steps * step;
  };

  // The codes of a unit are copied row by row: in bulk by the first warp, or 16 bytes at a time by
  // all. The last warp asks L2 for its scales, which are read when their turn is near.
  Unit ahead{first_chunk};
  const auto start_loading = [&] {
    if (ahead.chunk >= end_chunk) return;
    const int first = ahead.tile * tile, rows = min(tile, outputs - first);
    const int bytes = steps_in(ahead.chunk) * step_bytes;
    unsigned char* const to = stages + ahead.stage * layout.stage_bytes;
    std::uint64_t* const barrier = &barriers[ahead.stage];
    if constexpr (has_bulk_copies) {
      if (warp == 0) {
        if (lane == 0) arrive_expecting(barrier, rows * bytes);
        __syncwarp();
        if (lane < rows) {
          const std::uint8_t* const from = work.codes + first_weight(ahead.chunk, first + lane) / 2;
          copy_bulk(to + lane * layout.pitch, from, bytes, barrier);
        }
      }
    } else {
      for (int i = warp; i < rows; i += cut.warps) {
        const std::uint8_t* const from = work.codes + first_weight(ahead.chunk, first + i) / 2;
        for (int at = lane * 16; at < bytes; at += 32 * 16) {
          copy_16(to + i * layout.pitch + at, from + at);
        }
      }
      arrive_after_copies(barrier);
    }
    if (warp == cut.warps - 1 && lane / 2 < rows) {
      const std::int64_t weight = first_weight(ahead.chunk, first + lane / 2);
      work.scales.prefetch(weight, weight + bytes * 2, lane % 2, 2);
    }
    ahead.next(tiles, cut.stages);
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < cut.stages; ++i) {
      init_barrier(&barriers[i], has_bulk_copies ? 1 : blockDim.x);
    }
    publish_barriers();
  }
  if constexpr (has_bulk_copies) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  for (int i = 0; i < cut.stages; ++i) start_loading();
  fill_table<Decode>(shared, work.table);

  // The scales of this lane: of outputs `row` and `row + 8`, every fourth one of the slice.
  constexpr int scales_per_lane = warp_steps * Halves / 4;
  const int first_scale = warp * warp_steps * Halves + quad;  // in the chunk
  Scales::Loaded loaded[2][scales_per_lane];
  const auto load_scales = [&](const Unit& unit) {
    const int count = unit.chunk < end_chunk ? steps_in(unit.chunk) * Halves : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = unit.tile * tile + row + half * 8;
      const std::int64_t weight = first_weight(unit.chunk, output);
#pragma unroll
      for (int i = 0; i < scales_per_lane; ++i) {
        const int scale = first_scale + i * 4;
        loaded[half][i] = {};
        if (output < outputs && scale < count) {
          loaded[half][i] = work.scales.load(weight + scale * (step / Halves));
        }
      }
    }
  };
  Unit unit{first_chunk};
  load_scales(unit);
  __syncthreads();

  const LaneTable<Decode> table(shared, lane);
  std::uint32_t activations[warp_steps][RowTiles][8];
  float* own_partials = partials;

  while (unit.chunk < end_chunk) {
    if (unit.tile == 0) {
#pragma unroll
      for (int i = 0; i < warp_steps; ++i) {
        const int index = warp * warp_steps + i;
#pragma unroll
        for (int t = 0; t < RowTiles; ++t) {
          const int column = t * 8 + row;
          const bool exists = index < steps_in(unit.chunk) && column < work.m;
          const auto* const from = static_cast<const std::uint16_t*>(work.input) + column * work.k +
                                   (std::int64_t{unit.chunk} * cut.chunk_steps + index) * step;
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            const int at = Halves == 1 ? quad * 16 + v * 8 : v * 32 + quad * 8;
            const uint4 values =
                exists ? __ldg(reinterpret_cast<const uint4*>(from + at)) : uint4{};
            activations[i][t][v * 4 + 0] = values.x;
            activations[i][t][v * 4 + 1] = values.y;
            activations[i][t][v * 4 + 2] = values.z;
            activations[i][t][v * 4 + 3] = values.w;
          }
        }
      }
    }

    float scales[2][scales_per_lane];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < scales_per_lane; ++i) {
        scales[half][i] = work.scales.value(loaded[half][i]);
      }
    }
    const Unit now = unit;
    unit.next(tiles, cut.stages);
    load_scales(unit);

    wait_for(&barriers[now.stage], now.parity);
    const unsigned char* const codes = stages + now.stage * layout.stage_bytes +
                                       row * layout.pitch + warp * warp_steps * step_bytes;

    float sum[RowTiles][4] = {};
#pragma unroll
    for (int i = 0; i < warp_steps; ++i) {
      const Codes<Halves> upper(codes + i * step_bytes, quad);
      const Codes<Halves> lower(codes + 8 * layout.pitch + i * step_bytes, quad);
#pragma unroll
      for (int h = 0; h < Halves; ++h) {
        const int index = i * Halves + h;
        const float upper_scale = from_quad_lane(scales[0][index / 4], index % 4);
        const float lower_scale = from_quad_lane(scales[1][index / 4], index % 4);
        float unscaled[RowTiles][4];
        const auto two_multiplications = [&]<int FirstByte>(int w, bool is_first) {
          const std::uint32_t weights[4] = {
              table.template weights<FirstByte>(upper.word[w], upper_scale),
              table.template weights<FirstByte>(lower.word[w], lower_scale),
              table.template weights<FirstByte + 1>(upper.word[w], upper_scale),
              table.template weights<FirstByte + 1>(lower.word[w], lower_scale)};
#pragma unroll
          for (int t = 0; t < RowTiles; ++t) {
            const auto& x = activations[i][t];
            const std::uint32_t b0 = x[w * 4 + FirstByte], b1 = x[w * 4 + FirstByte + 1];
            if constexpr (!Decode::scales_sums) {
              multiply_add<Out>(sum[t], weights, b0, b1);
            } else if (is_first) {
              multiply<Out>(unscaled[t], weights, b0, b1);
            } else {
              multiply_add<Out>(unscaled[t], weights, b0, b1);
            }
          }
        };
#pragma unroll
        for (int w = h; w < h + 2 / Halves; ++w) {
          two_multiplications.template operator()<0>(w, w == h);
          two_multiplications.template operator()<2>(w, false);
        }
        if constexpr (Decode::scales_sums) {
#pragma unroll
          for (int t = 0; t < RowTiles; ++t) {
            sum[t][0] = fmaf(upper_scale, unscaled[t][0], sum[t][0]);
            sum[t][1] = fmaf(upper_scale, unscaled[t][1], sum[t][1]);
            sum[t][2] = fmaf(lower_scale, unscaled[t][2], sum[t][2]);
            sum[t][3] = fmaf(lower_scale, unscaled[t][3], sum[t][3]);
          }
        }
      }
    }

#pragma unroll
    for (int t = 0; t < RowTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = t * 8 + quad * 2 + i % 2, output = row + i / 2 * 8;
        own_partials[warp * layout.slice_floats + column * layout.column_floats + output] =
            sum[t][i];
      }
    }
    __syncthreads();
    start_loading();

    // Four lanes add the slices of an output; eight outputs of a column go with a warp.
    for (int i = threadIdx.x / 4; i < RowTiles * 8 * tile; i += cut.warps * 8) {
      const int column = i / tile, output = now.tile * tile + i % tile;
      if (column >= work.m) break;
      float value = 0;
#pragma unroll
      for (int s = quad; s < max_warps; s += 4) {
        const int at = s * layout.slice_floats + column * layout.column_floats + i % tile;
        if (s < cut.warps) value += own_partials[at];
      }
      value += from_lane_xor(value, 1);
      value += from_lane_xor(value, 2);
      if (quad != 0 || output >= outputs) continue;
      float* const earlier = &sums[output * RowTiles * 8 + column];
      if (now.chunk > first_chunk) value = *earlier + value;
      const std::int64_t at = column * work.n + first_output + output;
      if (now.chunk + 1 < end_chunk) {
        *earlier = value;
      } else if (cut.parts > 1) {
        work.part_sums[part * work.m * work.n + at] = value;
      } else {
        write_output<Out>(work.output, at, value, work.bias, first_output + output);
      }
    }
    // Two buffers in turn: while some warps still read one, others may write the next.
    const int buffer_floats = cut.warps * layout.slice_floats;
    own_partials = own_partials == partials ? partials + buffer_floats : partials;
  }
  if (cut.parts == 1) return;

  // The last block of a group adds the parts, in their order.
  add_parts_in_last_block(work.arrivals + group, cut.parts, [&] {
    for (int i = threadIdx.x; i < outputs * work.m; i += blockDim.x) {
      const std::int64_t at = i / outputs * work.n + first_output + i % outputs;
      float value = 0;
      for (int p = 0; p < cut.parts; ++p) {
        value += __ldcg(&work.part_sums[p * work.m * work.n + at]);
      }
      write_output<Out>(work.output, at, value, work.bias, first_output + i % outputs);
    }
  });
#endif
}

/// As many stages as fit.
inline int stages_that_fit(Cut cut, std::int64_t n, int columns, const Device& device) {
  cut.stages = 0;
  const FewRowsLayout layout(cut, n, columns);
  return std::clamp((device.shared_bytes - 1024 - layout.bytes) / layout.stage_bytes, 0,
                    max_stages);
}

/// A cut with so many chunks and parts; no warps where it is not possible.
inline Cut few_rows_cut(const Problem& problem, const Device& device, int chunks, int parts) {
  const std::int64_t all_steps = problem.k / step;
  Cut cut{.parts = parts};
  cut.chunk_steps = static_cast<int>(blocks_over(all_steps, chunks));
  cut.chunks = static_cast<int>(blocks_over(all_steps, cut.chunk_steps));
  const auto warps = static_cast<int>(blocks_over(cut.chunk_steps, warp_steps));
  constexpr int max_outputs = 512;  // whose sums fit in shared memory
  const std::int64_t groups = std::max<std::int64_t>(std::max(1, device.multiprocessors / parts),
                                                     blocks_over(problem.n, max_outputs));
  cut.groups = static_cast<int>(std::min(groups, problem.n));
  cut.stages = stages_that_fit(cut, problem.n, max_rows, device);
  if (warps <= max_warps && parts <= cut.chunks && cut.stages >= 2) cut.warps = warps;
  return cut;
}

/// The cut for a problem; no warps where there is none.
inline Cut few_rows_cut(const Problem& problem, const Device& device) {
  const std::int64_t all_steps = problem.k / step;
  const auto min_chunks = static_cast<int>(blocks_over(all_steps, warp_steps * max_warps));
  Cut best;
  double least = 0;
  for (int chunks = min_chunks; chunks <= std::min<std::int64_t>(all_steps, 4 * min_chunks + 4);
       ++chunks) {
    for (int parts = 1; parts <= 16; ++parts) {
      const Cut cut = few_rows_cut(problem, device, chunks, parts);
      if (cut.warps == 0) continue;
      // What the busiest block takes, in the time of a step of all warps: its tiles, the
      // activations of its chunks (about that of a tile) and the sum of the parts (two tiles).
      const std::int64_t waves =
          blocks_over(cut.groups * parts, std::max(1, device.multiprocessors));
      const double tiles = static_cast<double>(problem.n) / cut.groups / tile + 1;
      const double of_a_part =
          static_cast<double>(blocks_over(cut.chunks, parts)) * cut.chunk_steps;
      const double load =
          static_cast<double>(waves) * of_a_part * tiles * std::max(1.0, 6.0 / cut.warps) +
          (parts > 1 ? 2 * cut.chunk_steps : 0);
      if (best.warps == 0 || load < least) {
        best = cut;
        least = load;
      }
    }
  }
  return best;
}

template <class Out, template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, Cut cut, const Device& device,
                            cudaStream_t stream) {
  const int columns = problem.m > 8 ? 16 : 8;
  cut.stages = stages_that_fit(cut, problem.n, columns, device);
  auto* const part_sums = static_cast<float*>(problem.workspace);
  const FewRows work{
      .codes = problem.codes,
      .input = problem.input,
      .bias = problem.bias,
      .output = problem.output,
      .part_sums = part_sums,
      .arrivals = reinterpret_cast<unsigned*>(part_sums + cut.parts * problem.m * problem.n),
      .n = problem.n,
      .k = problem.k,
      .m = static_cast<int>(problem.m),
      .cut = cut,
      .scales = Scales(problem),
      .table = table_of(problem)};
  const FewRowsLayout layout(cut, problem.n, columns);
  const auto launch = [&]<int RowTiles, int Halves>() {
    return launch_kernel(few_rows<Out, Decode<Out>, RowTiles, Halves>, cut.groups * cut.parts,
                         cut.warps * 32, layout.bytes, stream, work);
  };
  const bool halves = problem.block_size < step;
  if (columns == 8)
    return halves ? launch.template operator()<1, 2>() : launch.template operator()<1, 1>();
  return halves ? launch.template operator()<2, 2>() : launch.template operator()<2, 1>();
}

template <template <class> class Decode>
cudaError_t launch_few_rows(const Problem& problem, const Cut& cut, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  const Device device = current_device();
  return problem.type == nf4::OutputType::fp16
             ? launch_few_rows<__half, Decode>(problem, cut, device, stream)
             : launch_few_rows<__nv_bfloat16, Decode>(problem, cut, device, stream);
}

inline std::uint64_t few_rows_workspace(const Problem& problem, const Cut& cut) {
  if (cut.parts <= 1) return 0;
  return static_cast<std::uint64_t>(cut.parts * problem.m * problem.n + cut.groups) * 4;
}

template <template <class> class Decode>
Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > max_rows) return Support::no("takes 16 rows at most; many_rows takes more");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  if (few_rows_cut(problem, device).warps == 0) {
    return Support::no("the codes of 16 outputs do not fit in shared memory");
  }
  return is_compiled(few_rows<__half, Decode<__half>, 1, 1>);
}

}  // namespace reprolab::nf4_product
