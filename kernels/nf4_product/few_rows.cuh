// The product for the few rows of decoding, which is one pass over the codes. few_rows.cu says what
// it is for.
//
// How the work is cut. A block of threads stays on its multiprocessor and owns a range of outputs,
// in tiles of 16, and a range of the inputs, in chunks. Within a chunk a warp owns a slice of
// `steps` x 64 inputs for all tiles, so the activations of the slice stay in its registers. The
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

inline constexpr int tile = 16;        ///< Outputs per tile.
inline constexpr int step = 64;        ///< Inputs per step.
inline constexpr int steps = 8;        ///< Steps per warp and chunk.
inline constexpr int most_warps = 10;  ///< So that a thread may have 200 registers.
inline constexpr int most_rows = 16;

/// How a product is cut. Nothing that decides the order of a sum depends on m.
struct Cut {
  int warps = 0;   ///< Per block.
  int chunks = 0;  ///< Of the inputs.
  int parts = 0;   ///< Blocks that share a group of outputs, each with its chunks.
  int groups = 0;  ///< Of the outputs; one for each block of a part.
  int stages = 0;  ///< Of the ring.
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
  int pitch;  ///< Between rows of codes: 32 more than a multiple of 128, for reads without conflicts.
  int stage_bytes, barriers, stages, partials, sums, bytes;
  int slice_floats;       ///< Between the partial sums of two warps.
  int outputs_per_group;  ///< At most.

  static constexpr int column_floats = 20;  // of 16 outputs; so that 4 columns use all banks

  __host__ __device__ FewRowsLayout(const Cut& cut, std::int64_t n, std::int64_t k, int columns) {
    const auto over = [](std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); };
    pitch = over(over(k / step, cut.chunks) * (step / 2), 128) * 128 + 32;
    stage_bytes = tile * pitch;
    slice_floats = columns * column_floats + 8;
    outputs_per_group = over(n, cut.groups);
    barriers = table_rows * row_bytes;
    partials = barriers + 128;
    sums = partials + 2 * cut.warps * slice_floats * 4;
    stages = sums + (cut.chunks > cut.parts ? over(outputs_per_group, tile) * tile * columns * 4 : 0);
    // A warp with fewer steps reads past the last row, and multiplies by zero.
    bytes = stages + cut.stages * stage_bytes + steps * step / 2;
  }
};
inline constexpr int most_stages = 16;  // as many barriers fit

/// `RowTiles`: groups of 8 rows. `Halves`: scales per step of 64; 2 for blocks of 32 weights, whose
/// lanes take 8 weights of each half in place of 16 in a row.
template <class Out, class Decode, int RowTiles, int Halves>
__global__ void __launch_bounds__(most_warps * 32, 1) few_rows(const FewRows work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char shared[];
  const Cut& cut = work.cut;
  const FewRowsLayout layout(cut, work.n, work.k, RowTiles * 8);
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
  const int units = (end_chunk - first_chunk) * tiles;
  const int all_steps = static_cast<int>(work.k / step);
  const auto first_step = [&](int chunk) {
    return static_cast<int>(std::int64_t{all_steps} * chunk / cut.chunks);
  };

  // A unit is a tile in a chunk. Its codes are copied row by row: in bulk by the first warp, or 16
  // bytes at a time by all. The second warp asks L2 for its scales, which are read when it is near.
  const auto start_loading = [&](int unit) {
    if (unit >= units) return;
    const int chunk = first_chunk + unit / tiles, begin = unit % tiles * tile;
    const int rows = min(tile, outputs - begin), stage = unit % cut.stages;
    const int bytes = (first_step(chunk + 1) - first_step(chunk)) * (step / 2);
    unsigned char* const to = stages + stage * layout.stage_bytes;
    const auto first_weight = [&](int i) {
      return (first_output + begin + i) * work.k + std::int64_t{first_step(chunk)} * step;
    };
    if constexpr (has_bulk_copies) {
      if (warp == 0) {
        if (lane == 0) arrive_expecting(&barriers[stage], rows * bytes);
        __syncwarp();
        if (lane < rows) {
          copy_bulk(to + lane * layout.pitch, work.codes + first_weight(lane) / 2, bytes,
                    &barriers[stage]);
        }
      }
    } else {
      for (int i = warp; i < rows; i += cut.warps) {
        for (int at = lane * 16; at < bytes; at += 32 * 16) {
          copy_16(to + i * layout.pitch + at, work.codes + first_weight(i) / 2 + at);
        }
      }
      arrive_after_copies(&barriers[stage]);
    }
    if (warp == min(1, cut.warps - 1) && lane / 2 < rows) {
      const std::int64_t first = first_weight(lane / 2);
      work.scales.prefetch(first, first + bytes * 2, lane % 2, 2);
    }
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < cut.stages; ++i) init_barrier(&barriers[i], has_bulk_copies ? 1 : blockDim.x);
    publish_barriers();
  }
  if (has_bulk_copies) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  for (int unit = 0; unit < cut.stages; ++unit) start_loading(unit);
  fill_table<Decode>(shared, work.table);

  // The scales of this lane: of outputs `row` and `row + 8`, every fourth one of the slice.
  constexpr int scales_per_lane = steps * Halves / 4;
  Scales::Loaded loaded[2][scales_per_lane];
  const auto load_scales = [&](int unit) {
    if (unit >= units) return;
    const int chunk = first_chunk + unit / tiles, begin = unit % tiles * tile;
    const int chunk_steps = first_step(chunk + 1) - first_step(chunk);
    const int first = chunk_steps * warp / cut.warps;
    const int count = chunk_steps * (warp + 1) / cut.warps - first;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < scales_per_lane; ++i) {
        const int scale = quad + i * 4, output = begin + row + half * 8;
        loaded[half][i] = {};
        if (output < outputs && scale < count * Halves) {
          const std::int64_t input = std::int64_t{first_step(chunk) + first} * step;
          loaded[half][i] = work.scales.load((first_output + output) * work.k + input +
                                             scale * (step / Halves));
        }
      }
    }
  };
  load_scales(0);
  __syncthreads();

  const LaneTable<Decode> table(shared, lane);
  std::uint32_t activations[steps][RowTiles][8];
  int slice_bytes = 0;  // from the beginning of a row of codes to this warp's slice

  for (int unit = 0; unit < units; ++unit) {
    const int chunk = first_chunk + unit / tiles, tile_in_chunk = unit % tiles;
    if (tile_in_chunk == 0) {
      const int chunk_steps = first_step(chunk + 1) - first_step(chunk);
      const int first = chunk_steps * warp / cut.warps;
      const int count = chunk_steps * (warp + 1) / cut.warps - first;
      slice_bytes = first * (step / 2);
#pragma unroll
      for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int t = 0; t < RowTiles; ++t) {
          uint4 values[2] = {};
          if (i < count && t * 8 + row < work.m) {
            const auto* const from = static_cast<const std::uint16_t*>(work.input) +
                                     (t * 8 + row) * work.k +
                                     std::int64_t{first_step(chunk) + first + i} * step;
#pragma unroll
            for (int v = 0; v < 2; ++v) {
              const int at = Halves == 1 ? quad * 16 + v * 8 : v * 32 + quad * 8;
              values[v] = __ldg(reinterpret_cast<const uint4*>(from + at));
            }
          }
          const std::uint32_t registers[8] = {values[0].x, values[0].y, values[0].z, values[0].w,
                                              values[1].x, values[1].y, values[1].z, values[1].w};
#pragma unroll
          for (int v = 0; v < 8; ++v) activations[i][t][v] = registers[v];
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
    load_scales(unit + 1);

    const int stage = unit % cut.stages;
    wait_for(&barriers[stage], unit / cut.stages % 2);
    const unsigned char* const codes =
        stages + stage * layout.stage_bytes + row * layout.pitch + slice_bytes;

    float sum[RowTiles][4] = {};
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      std::uint32_t upper[2], lower[2];  // codes of outputs `row` and `row + 8`
      const unsigned char* const from = codes + i * (step / 2);
      if constexpr (Halves == 1) {
        const auto read = [&](const unsigned char* at, std::uint32_t (&words)[2]) {
          const uint2 both = *reinterpret_cast<const uint2*>(at + quad * 8);
          words[0] = both.x, words[1] = both.y;
        };
        read(from, upper);
        read(from + 8 * layout.pitch, lower);
      } else {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int at = h * 16 + quad * 4;
          upper[h] = *reinterpret_cast<const std::uint32_t*>(from + at);
          lower[h] = *reinterpret_cast<const std::uint32_t*>(from + 8 * layout.pitch + at);
        }
      }
#pragma unroll
      for (int h = 0; h < Halves; ++h) {
        const int index = i * Halves + h;
        const float upper_scale = from_quad_lane(scales[0][index / 4], index % 4);
        const float lower_scale = from_quad_lane(scales[1][index / 4], index % 4);
        float unscaled[RowTiles][4] = {};
        auto& into = Decode::scales_sums ? unscaled : sum;
#pragma unroll
        for (int w = h; w < h + 2 / Halves; ++w) {
          const auto two_multiplications = [&]<int FirstByte>() {
            const std::uint32_t weights[4] = {
                table.template weights<FirstByte>(upper[w], upper_scale),
                table.template weights<FirstByte>(lower[w], lower_scale),
                table.template weights<FirstByte + 1>(upper[w], upper_scale),
                table.template weights<FirstByte + 1>(lower[w], lower_scale)};
#pragma unroll
            for (int t = 0; t < RowTiles; ++t) {
              const auto& x = activations[i][t];
              multiply_add<Out>(into[t], weights, x[w * 4 + FirstByte], x[w * 4 + FirstByte + 1]);
            }
          };
          two_multiplications.template operator()<0>();
          two_multiplications.template operator()<2>();
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

    // Two buffers in turn: while some warps still read one, others may write the next.
    float* const all_slices = partials + unit % 2 * cut.warps * layout.slice_floats;
    float* const slice = all_slices + warp * layout.slice_floats;
#pragma unroll
    for (int t = 0; t < RowTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = t * 8 + quad * 2 + i % 2, output = row + i / 2 * 8;
        slice[column * layout.column_floats + output] = sum[t][i];
      }
    }
    __syncthreads();
    start_loading(unit + cut.stages);

    // Four lanes add the slices of an output; eight outputs of a column go with a warp.
    for (int i = threadIdx.x / 4; i < RowTiles * 8 * tile; i += cut.warps * 8) {
      const int column = i / tile, output = tile_in_chunk * tile + i % tile;
      if (column >= work.m) break;
      float value = 0;
      for (int s = quad; s < cut.warps; s += 4) {
        value += all_slices[s * layout.slice_floats + column * layout.column_floats + i % tile];
      }
      value += from_lane_xor(value, 1);
      value += from_lane_xor(value, 2);
      if (quad != 0 || output >= outputs) continue;
      float* const earlier = &sums[output * RowTiles * 8 + column];
      if (chunk > first_chunk) value = *earlier + value;
      const std::int64_t at = column * work.n + first_output + output;
      if (chunk + 1 < end_chunk) {
        *earlier = value;
      } else if (cut.parts > 1) {
        work.part_sums[part * work.m * work.n + at] = value;
      } else {
        write_output<Out>(work.output, at, value, work.bias, first_output + output);
      }
    }
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

/// As many stages as fit, but not more than are of use.
inline int stages_that_fit(Cut cut, const Problem& problem, int columns, int shared_bytes) {
  cut.stages = 0;
  const FewRowsLayout layout(cut, problem.n, problem.k, columns);
  return std::clamp((shared_bytes - layout.bytes) / layout.stage_bytes, 0, 8);
}

/// The cut for a problem; none (`warps` is 0) where shared memory is too small.
inline Cut few_rows_cut(const Problem& problem, const Device& device) {
  const auto all_steps = static_cast<int>(problem.k / step);
  Cut best;
  double least = 0;
  const auto fewest = static_cast<int>(blocks_over(all_steps, steps * most_warps));
  for (int chunks = fewest; chunks <= std::min(all_steps, 2 * fewest + 2); ++chunks) {
    for (int parts = 1; parts <= std::min(chunks, 16); ++parts) {
      if (chunks % parts != 0) continue;
      Cut cut{.chunks = chunks, .parts = parts};
      const auto chunk_steps = static_cast<int>(blocks_over(all_steps, chunks));
      cut.warps = static_cast<int>(blocks_over(chunk_steps, steps));
      constexpr int most_outputs = 512;  // whose sums fit in shared memory
      const std::int64_t groups = std::max<std::int64_t>(
          std::max(1, device.multiprocessors / parts), blocks_over(problem.n, most_outputs));
      cut.groups = static_cast<int>(std::min(groups, problem.n));
      cut.stages = stages_that_fit(cut, problem, most_rows, device.shared_bytes);
      if (cut.stages < 2) continue;
      // What a block does, in steps of a warp: its tiles, the activations of its chunks (counted
      // as two tiles each), and the sum over the parts (as three tiles).
      const double outputs = static_cast<double>(problem.n) / cut.groups;
      const double waves = std::max(1.0, static_cast<double>(cut.groups * parts) / device.multiprocessors);
      const double load = waves * (outputs / tile + 2) * (chunks / parts) * chunk_steps +
                          (parts > 1 ? 3 * chunk_steps : 0) + (cut.warps < 7 ? chunk_steps * outputs / tile : 0);
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
  cut.stages = stages_that_fit(cut, problem, columns, device.shared_bytes);
  auto* const part_sums = static_cast<float*>(problem.workspace);
  const FewRows work{.codes = problem.codes,
                     .input = problem.input,
                     .bias = problem.bias,
                     .output = problem.output,
                     .part_sums = part_sums,
                     .arrivals = reinterpret_cast<unsigned*>(
                         part_sums + cut.parts * problem.m * problem.n),
                     .n = problem.n,
                     .k = problem.k,
                     .m = static_cast<int>(problem.m),
                     .cut = cut,
                     .scales = Scales(problem),
                     .table = table_of(problem)};
  const bool halves = problem.block_size < step;
  const auto kernel = columns == 8 ? halves ? few_rows<Out, Decode<Out>, 1, 2>
                                            : few_rows<Out, Decode<Out>, 1, 1>
                      : halves     ? few_rows<Out, Decode<Out>, 2, 2>
                                   : few_rows<Out, Decode<Out>, 2, 1>;
  const FewRowsLayout layout(cut, problem.n, problem.k, columns);
  return launch_kernel(kernel, cut.groups * cut.parts, cut.warps * 32, layout.bytes, stream, work);
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

inline Support supports_few_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.m > most_rows) return Support::no("takes 16 rows at most; many_rows takes more");
  if (const Support support = supports_matrix_operands(problem, device); !support.ok) return support;
  if (few_rows_cut(problem, device).warps == 0) {
    return Support::no("the codes of 16 outputs do not fit in shared memory");
  }
  return Support::yes();
}

}  // namespace reprolab::nf4_product
