// The product for 16 rows and more. many_rows.cu says what it is for.
//
// How the work is cut. A block of threads owns a range of outputs, in passes of 64 for each of its
// warpgroups, and a range of the inputs. A warpgroup decodes its weights into registers, where they
// are the first operand of wgmma; the rows' activations come to shared memory as the second.
// Without wgmma each warp multiplies its 16 outputs by mma. The result does not depend on the other
// rows: an output is the sum over its inputs in their order, of parts that n and k alone decide.
//
// A launch of its own first writes the activations as they will lie in shared memory: in the order
// of inputs that lets a lane take 8 consecutive bytes of codes, and swizzled for wgmma. A stage is
// then one copy.
#pragma once

#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/sums.cuh"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

inline constexpr int block_inputs = 64;               ///< A row of 128 bytes of activations.
inline constexpr int unit_inputs = 2 * block_inputs;  ///< Per stage.
inline constexpr int warp_outputs = 16;
inline constexpr int code_pitch = unit_inputs / 2 + 32;  ///< For reads without bank conflicts.
inline constexpr int code_stages = 5;

struct ManyRows {
  const std::uint8_t* codes;
  const void* input;
  const void* bias;
  void* output;
  unsigned char* arranged;  ///< [row tiles][units][2][rows of a tile][128 bytes]
  float* part_sums;         ///< [parts][m][n], if there are several parts
  unsigned* arrivals;       ///< [row tiles][groups], zero between launches
  std::int64_t m, n, k;
  int groups, parts, units, activation_stages;
  Scales scales;
  nf4::Table table;
};

/// Writes the activations as a stage holds them: a block per unit and tile of rows. Rows and inputs
/// that do not exist are zero.
template <class Out, int Rows>
__global__ void arrange_activations(const ManyRows work) {
  constexpr int parts_per_row = 8;  // of 16 bytes
  const int unit = blockIdx.x % work.units;
  const std::int64_t row_tile = blockIdx.x / work.units;
  uint4* const to =
      reinterpret_cast<uint4*>(work.arranged) + std::int64_t{blockIdx.x} * 2 * Rows * parts_per_row;
  const auto* const input = static_cast<const std::uint32_t*>(work.input);
  for (int i = threadIdx.x; i < 2 * Rows * parts_per_row; i += blockDim.x) {
    const int part = i % parts_per_row, row_in_tile = i / parts_per_row % Rows;
    const int block = unit * 2 + i / (parts_per_row * Rows);
    const std::int64_t row = row_tile * Rows + row_in_tile;
    uint4 pairs = {};
    if (row < work.m && block * block_inputs < work.k) {
      // A pair of inputs for each lane of a quad, which has 16 in a row.
      const std::uint32_t* const from =
          input + (row * work.k + std::int64_t{block} * block_inputs) / 2 + part;
      pairs = {from[0], from[8], from[16], from[24]};
    }
    to[i - part + (part ^ (row_in_tile % 8))] = pairs;
  }
}

/// What lies in shared memory, in bytes from its beginning.
struct ManyRowsLayout {
  int stage_bytes, stages, codes, barriers, bytes;

  __host__ __device__ ManyRowsLayout(int rows, int warps, int activation_stages) {
    stage_bytes = 2 * rows * 128;
    stages = table_rows * row_bytes;
    codes = stages + activation_stages * stage_bytes;
    barriers = codes + warps * code_stages * warp_outputs * code_pitch;
    bytes = barriers + 2 * activation_stages * 8;
  }
};

template <class Out, class Decode, int Rows, int Warpgroups>
__global__ void __launch_bounds__(Warpgroups * 128, 1) many_rows(const ManyRows work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int warps = Warpgroups * 4, pass_outputs = warps * warp_outputs;
  const ManyRowsLayout layout(Rows, warps, work.activation_stages);
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const empty = full + work.activation_stages;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
  const int part = blockIdx.x % work.parts, group = blockIdx.x / work.parts % work.groups;
  const int row_tile = blockIdx.x / work.parts / work.groups;
  const std::int64_t first_output = work.n * group / work.groups;
  const int outputs = static_cast<int>(work.n * (group + 1) / work.groups - first_output);
  const int first_unit = work.units * part / work.parts;
  const int units = work.units * (part + 1) / work.parts - first_unit;
  const int passes = (outputs + pass_outputs - 1) / pass_outputs;
  const int all_units = passes * units;  // the activations come once for each pass

  if (threadIdx.x == 0) {
    for (int i = 0; i < work.activation_stages; ++i) {
      init_barrier(&full[i], has_bulk_copies ? 1 : 32);
      init_barrier(&empty[i], warps);
    }
    publish_barriers();
  }
  fill_table<Decode>(shared, work.table);
  __syncthreads();

  // By the first warp. Before a stage is written again, all warps have used it.
  const auto load_activations = [&](int i) {
    if (i >= all_units) return;
    const int stage = i % work.activation_stages, turn = i / work.activation_stages;
    if (turn > 0) wait_for(&empty[stage], (turn - 1) % 2);
    unsigned char* const to = shared + layout.stages + stage * layout.stage_bytes;
    const unsigned char* const from =
        work.arranged +
        (std::int64_t{row_tile} * work.units + first_unit + i % units) * layout.stage_bytes;
    if constexpr (has_bulk_copies) {
      if (lane == 0) {
        arrive_expecting(&full[stage], layout.stage_bytes);
        copy_bulk(to, from, layout.stage_bytes, &full[stage]);
      }
      __syncwarp();
    } else {
      for (int at = lane * 16; at < layout.stage_bytes; at += 32 * 16) copy_16(to + at, from + at);
      arrive_after_copies(&full[stage]);
    }
  };
  // By each warp, the codes of its own outputs.
  unsigned char* const own_codes =
      shared + layout.codes + warp * code_stages * warp_outputs * code_pitch;
  const auto load_codes = [&](int i) {
    if (i < all_units) {
      constexpr int pieces = unit_inputs / 2 / 16;
#pragma unroll
      for (int piece = lane; piece < warp_outputs * pieces; piece += 32) {
        const int output = i / units * pass_outputs + warp * warp_outputs + piece / pieces;
        const std::int64_t input =
            std::int64_t{first_unit + i % units} * unit_inputs + piece % pieces * 32;
        const bool exists = output < outputs && input < work.k;
        copy_16(own_codes + (i % code_stages * warp_outputs + piece / pieces) * code_pitch +
                    piece % pieces * 16,
                work.codes + (exists ? ((first_output + output) * work.k + input) / 2 : 0), exists);
      }
    }
    end_copy_group();
  };
  if (warp == 0) {
    for (int i = 0; i < work.activation_stages; ++i) load_activations(i);
  }
  for (int i = 0; i < code_stages - 1; ++i) load_codes(i);

  // The scales of 8 blocks of 64 inputs at a time: this lane's are those of outputs `row` and
  // `row + 8`, of every fourth block. Scaled weights need that of the lane's own 16 inputs.
  constexpr int blocks_at_once = 8, units_at_once = blocks_at_once / 2;
  Scales::Loaded loaded[2][2];
  const auto load_scales = [&](int i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = i / units * pass_outputs + warp * warp_outputs + row + half * 8;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::int64_t input =
            (std::int64_t{first_unit + i % units} * 2 + j * 4 + quad) * block_inputs;
        loaded[half][j] = {};
        if (i < all_units && output < outputs && input < work.k) {
          loaded[half][j] = work.scales.load((first_output + output) * work.k + input);
        }
      }
    }
  };
  load_scales(0);
  const LaneTable<Decode> table(shared, lane);
  float scales[2][2];

  constexpr int registers = Rows / 2;
  float sum[registers];

  for (int i = 0; i < all_units; ++i) {
    const int unit = i % units;
    if (unit == 0) {
#pragma unroll
      for (int r = 0; r < registers; ++r) sum[r] = 0;
    }
    if (unit % units_at_once == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 2; ++j) scales[half][j] = work.scales.value(loaded[half][j]);
      }
      const int next = min(unit + units_at_once, units);
      load_scales(i - unit + next);
    }

    wait_for_copies<code_stages - 2>();
    __syncwarp();
    load_codes(i + code_stages - 1);
    // The stage of the unit before last, so that the first warp need not wait for the slowest.
    if (warp == 0 && i >= 2) load_activations(i - 2 + work.activation_stages);

    const int stage = i % work.activation_stages;
    const unsigned char* const activations = shared + layout.stages + stage * layout.stage_bytes;
    const unsigned char* const codes =
        own_codes + (i % code_stages * warp_outputs + row) * code_pitch + quad * 8;
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int index = unit % units_at_once * 2 + b;
      const float upper_scale = from_quad_lane(index < 4 ? scales[0][0] : scales[0][1], index % 4);
      const float lower_scale = from_quad_lane(index < 4 ? scales[1][0] : scales[1][1], index % 4);
      const uint2 upper = *reinterpret_cast<const uint2*>(codes + b * 32);
      const uint2 lower = *reinterpret_cast<const uint2*>(codes + 8 * code_pitch + b * 32);
      std::uint32_t weights[4][4];
      const auto decode = [&]<int FirstByte>(int j, std::uint32_t above, std::uint32_t below) {
        weights[j][0] = table.template weights<FirstByte>(above, upper_scale);
        weights[j][1] = table.template weights<FirstByte>(below, lower_scale);
        weights[j][2] = table.template weights<FirstByte + 1>(above, upper_scale);
        weights[j][3] = table.template weights<FirstByte + 1>(below, lower_scale);
      };
      decode.template operator()<0>(0, upper.x, lower.x);
      decode.template operator()<2>(1, upper.x, lower.x);
      decode.template operator()<0>(2, upper.y, lower.y);
      decode.template operator()<2>(3, upper.y, lower.y);
      if (b == 0) wait_for(&full[stage], i / work.activation_stages % 2);

      float unscaled[registers];
      float(&into)[registers] = Decode::scales_sums ? unscaled : sum;
      const unsigned char* const columns = activations + b * Rows * 128;
      if constexpr (has_wgmma) {
        const std::uint64_t described = swizzled_columns(columns);
        begin_multiplications();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          constexpr int described_bytes = 16;
          start_multiplication<Out>(into, weights[j], described + j * 32 / described_bytes,
                                    !Decode::scales_sums || j > 0);
        }
        finish_multiplications(into);
      } else {
#pragma unroll
        for (int t = 0; t < Rows / 8; ++t) {
          float product[4] = {};
          if constexpr (!Decode::scales_sums) {
#pragma unroll
            for (int r = 0; r < 4; ++r) product[r] = sum[t * 4 + r];
          }
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const auto pair = [&](int p) {
              return *reinterpret_cast<const std::uint32_t*>(columns + (t * 8 + row) * 128 +
                                                             (p ^ row) * 16 + quad * 4);
            };
            multiply_add<Out>(product, weights[j], pair(j * 2), pair(j * 2 + 1));
          }
#pragma unroll
          for (int r = 0; r < 4; ++r) into[t * 4 + r] = product[r];
        }
      }
      if constexpr (Decode::scales_sums) {
#pragma unroll
        for (int r = 0; r < registers; ++r) {
          sum[r] = fmaf(r % 4 < 2 ? upper_scale : lower_scale, unscaled[r], sum[r]);
        }
      }
    }
    __syncwarp();
    if (lane == 0) arrive(&empty[stage]);

    if (unit + 1 < units) continue;
#pragma unroll
    for (int r = 0; r < registers; ++r) {
      const std::int64_t input_row = std::int64_t{row_tile} * Rows + r / 4 * 8 + quad * 2 + r % 2;
      const int output = i / units * pass_outputs + warp * warp_outputs + row + r % 4 / 2 * 8;
      if (input_row >= work.m || output >= outputs) continue;
      const std::int64_t at = input_row * work.n + first_output + output;
      if (work.parts > 1) {
        work.part_sums[part * work.m * work.n + at] = sum[r];
      } else {
        write_output<Out>(work.output, at, sum[r], work.bias, first_output + output);
      }
    }
  }
  wait_for_copies<0>();
  if (work.parts == 1) return;

  // The last block of a group adds the parts, in their order.
  add_parts_in_last_block(work.arrivals + row_tile * work.groups + group, work.parts, [&] {
    const std::int64_t first_row = std::int64_t{row_tile} * Rows;
    const int rows = static_cast<int>(min(work.m - first_row, std::int64_t{Rows}));
    for (int i = threadIdx.x; i < outputs * rows; i += blockDim.x) {
      const std::int64_t at = (first_row + i / outputs) * work.n + first_output + i % outputs;
      float value = 0;
      for (int p = 0; p < work.parts; ++p) {
        value += __ldcg(&work.part_sums[p * work.m * work.n + at]);
      }
      write_output<Out>(work.output, at, value, work.bias, first_output + i % outputs);
    }
  });
#endif
}

/// Rows that a block takes at a time.
inline int row_tile_of(const Problem& problem) {
  return problem.m <= 32 ? 32 : problem.m <= 64 ? 64 : 128;
}

/// How a product is cut; nothing that decides the order of a sum depends on m.
struct ManyRowsCut {
  int groups = 0;  ///< Of the outputs.
  int parts = 0;   ///< Of the inputs.
};

inline ManyRowsCut many_rows_cut(const Problem& problem, const Device& device) {
  const std::int64_t units = blocks_over(problem.k, unit_inputs);
  constexpr int pass = 256;
  ManyRowsCut best;
  double least = 0;
  for (int parts = 1; parts <= std::min<std::int64_t>(units, 16); ++parts) {
    const std::int64_t groups =
        std::clamp<std::int64_t>(device.multiprocessors / parts, 1, blocks_over(problem.n, 64));
    const std::int64_t passes = blocks_over(blocks_over(problem.n, groups), pass);
    // In the time of a pass of 256 outputs over a unit; the sum of the parts takes that of eight.
    const double load =
        static_cast<double>(passes * blocks_over(units, parts)) + (parts > 1 ? 8 : 0);
    if (best.parts == 0 || load < least) {
      best = {static_cast<int>(groups), parts};
      least = load;
    }
  }
  return best;
}

struct ManyRowsWorkspace {
  std::int64_t arranged, part_sums, arrivals;  ///< bytes of each, in this order

  ManyRowsWorkspace(const Problem& problem, const ManyRowsCut& cut) {
    const int rows = row_tile_of(problem);
    const std::int64_t row_tiles = blocks_over(problem.m, rows);
    arranged = row_tiles * blocks_over(problem.k, unit_inputs) * 2 * rows * 128;
    part_sums = cut.parts > 1 ? cut.parts * problem.m * problem.n * 4 : 0;
    arrivals = row_tiles * cut.groups * 4;
  }
};

inline std::uint64_t many_rows_workspace(const Problem& problem, const ManyRowsCut& cut) {
  const ManyRowsWorkspace workspace(problem, cut);
  return static_cast<std::uint64_t>(workspace.arranged + workspace.part_sums + workspace.arrivals);
}

template <class Out, class Decode, int Rows, int Warpgroups>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, const Device& device,
                             cudaStream_t stream) {
  const ManyRowsWorkspace workspace(problem, cut);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  ManyRows work{
      .codes = problem.codes,
      .input = problem.input,
      .bias = problem.bias,
      .output = problem.output,
      .arranged = memory,
      .part_sums = reinterpret_cast<float*>(memory + workspace.arranged),
      .arrivals = reinterpret_cast<unsigned*>(memory + workspace.arranged + workspace.part_sums),
      .m = problem.m,
      .n = problem.n,
      .k = problem.k,
      .groups = cut.groups,
      .parts = cut.parts,
      .units = static_cast<int>(blocks_over(problem.k, unit_inputs)),
      .activation_stages = 0,
      .scales = Scales(problem),
      .table = table_of(problem)};
  const std::int64_t row_tiles = blocks_over(problem.m, Rows);
  if (const auto error = launch_kernel(arrange_activations<Out, Rows>, row_tiles * work.units, 256,
                                       0, stream, work);
      error != cudaSuccess) {
    return error;
  }
  const ManyRowsLayout none(Rows, Warpgroups * 4, 0);
  work.activation_stages =
      std::clamp((device.shared_bytes - 1024 - none.bytes) / (none.stage_bytes + 16), 0, 6);
  if (work.activation_stages < 2) return cudaErrorInvalidConfiguration;
  const ManyRowsLayout layout(Rows, Warpgroups * 4, work.activation_stages);
  return launch_kernel(many_rows<Out, Decode, Rows, Warpgroups>, row_tiles * cut.groups * cut.parts,
                       Warpgroups * 128, layout.bytes, stream, work);
}

template <class Out, class Decode>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, cudaStream_t stream) {
  const Device device = current_device();
  // With 128 rows the sums need the registers of half as many threads.
  switch (row_tile_of(problem)) {
    case 32:
      return launch_many_rows<Out, Decode, 32, 4>(problem, cut, device, stream);
    case 64:
      return launch_many_rows<Out, Decode, 64, 4>(problem, cut, device, stream);
    default:
      return launch_many_rows<Out, Decode, 128, 2>(problem, cut, device, stream);
  }
}

template <template <class> class Decode>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  return problem.type == nf4::OutputType::fp16
             ? launch_many_rows<__half, Decode<__half>>(problem, cut, stream)
             : launch_many_rows<__nv_bfloat16, Decode<__nv_bfloat16>>(problem, cut, stream);
}

template <template <class> class Decode>
Support supports_many_rows(const Problem& problem) {
  const Device device = current_device();
  if (problem.block_size < block_inputs) return Support::no("needs blocks of 64 weights or more");
  constexpr int min_shared_bytes = 200 << 10;
  if (device.shared_bytes < min_shared_bytes) {
    return Support::no("needs 200 KiB of shared memory in a block");
  }
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  return is_compiled(many_rows<__half, Decode<__half>, 32, 4>);
}

}  // namespace reprolab::nf4_product
