// The product for more rows than few_rows takes. many_rows.cu says what it is for.
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

inline constexpr int block_inputs = 64;  ///< Rows of 128 bytes of activations.
inline constexpr int unit_blocks = 4;    ///< Per stage of codes: rows of 128 bytes.
inline constexpr int unit_inputs = unit_blocks * block_inputs;
inline constexpr int warp_outputs = 16;
inline constexpr int code_pitch = unit_inputs / 2;
inline constexpr int code_stages = 3;
inline constexpr int code_stage_bytes = warp_outputs * code_pitch;  ///< Of a warp.

/// The codes of an output lie in parts of 16 bytes, in another order in each of four outputs, so
/// that eight lanes read all banks.
__device__ inline int swizzled_part(int output, int part) { return part ^ output % 4 * 2; }

inline constexpr int max_activation_stages = 8;
/// Blocks of inputs per stage of activations, which are multiplied together: as many as there are
/// registers for.
__host__ __device__ constexpr int stage_blocks_of(int rows) { return rows <= 32 ? 2 : 1; }

template <bool Nested>
struct ManyRows {
  const std::uint8_t* codes;
  const void* input;
  const void* bias;
  void* output;
  unsigned char* arranged;  ///< [row tiles][blocks of 64 inputs][rows of a tile][128 bytes]
  PartSums part_sums;
  std::int64_t m, n, k;
  int groups, units, activation_stages;
  Shares group_shares, part_shares;  ///< Of the outputs and of the units.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Writes the activations as stages hold them: a block of threads per block of inputs and tile of
/// rows. Rows and inputs that do not exist are zero.
template <class Out, int Rows, bool Nested>
__global__ void arrange_activations(const ManyRows<Nested> work) {
  constexpr int parts_per_row = 8;  // of 16 bytes
  let_next_launch_begin();
  wait_for_launch_before();
  const int block = blockIdx.x % (work.units * unit_blocks);
  const std::int64_t row_tile = blockIdx.x / (work.units * unit_blocks);
  uint4* const to =
      reinterpret_cast<uint4*>(work.arranged) + std::int64_t{blockIdx.x} * Rows * parts_per_row;
  const auto* const input = static_cast<const std::uint32_t*>(work.input);
  for (int i = threadIdx.x; i < Rows * parts_per_row; i += blockDim.x) {
    const int part = i % parts_per_row, row_in_tile = i / parts_per_row;
    const std::int64_t row = row_tile * Rows + row_in_tile;
    uint4 pairs = {};
    if (row < work.m && std::int64_t{block} * block_inputs < work.k) {
      // A pair of inputs for each lane of a quad, which has 16 in a row.
      const std::uint32_t* const from =
          input + (row * work.k + std::int64_t{block} * block_inputs) / 2 + part;
      pairs = {from[0], from[8], from[16], from[24]};
    }
    to[i - part + (part ^ (row_in_tile % 8))] = pairs;
  }
}

/// Where things lie in shared memory: the codes below the table, if there is room for them, and the
/// stages of activations behind it; else the other way round.
struct ManyRowsLayout {
  static constexpr int barriers = shared_begin;
  static constexpr int below = 2048;  ///< A multiple of 1024, as swizzling needs.
  int stage_bytes, codes_bytes, codes, stages;

  __host__ __device__ constexpr ManyRowsLayout(int rows, int warps)
      : stage_bytes(stage_blocks_of(rows) * rows * 128),
        codes_bytes(warps * code_stages * code_stage_bytes),
        codes(below + codes_bytes <= table_begin ? below : table_end),
        stages(codes == below ? table_end : below) {}
  __host__ __device__ constexpr int stage(int i) const { return stages + i * stage_bytes; }
  int max_stages(int shared_bytes) const {
    const int end = stages == below ? table_begin : shared_bytes;
    return std::min(max_activation_stages, (end - stages) / stage_bytes);
  }
  /// As many bytes are asked for.
  int end(int stages_made) const {
    return stages == below ? codes + codes_bytes : stage(stages_made);
  }
};

/// A unit of inputs in a pass over the outputs.
struct UnitOfPass {
  int pass = 0, unit = 0;

  __device__ void next(int units) {
    if (++unit == units) unit = 0, ++pass;
  }
};

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
__global__ void __launch_bounds__(Warpgroups * 128, 1) many_rows(const ManyRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  constexpr int warps = Warpgroups * 4, pass_outputs = warps * warp_outputs;
  constexpr ManyRowsLayout layout(Rows, warps);
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const empty = full + max_activation_stages;

  const int warp = from_lane(threadIdx.x / 32, 0);  // which the compiler then knows to be uniform
  const int lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
  const int part = blockIdx.x % work.part_sums.parts,
            group = blockIdx.x / work.part_sums.parts % work.groups;
  const int row_tile = blockIdx.x / work.part_sums.parts / work.groups;
  const std::int64_t first_output = work.group_shares.begin(group);
  const int outputs = work.group_shares.size(group);
  const int first_unit = work.part_shares.begin(part), units = work.part_shares.size(part);
  const auto all_blocks = static_cast<int>(work.k / block_inputs);
  const int passes = (outputs + pass_outputs - 1) / pass_outputs;

  if (threadIdx.x == 0) {
    for (int i = 0; i < work.activation_stages; ++i) {
      init_barrier(&full[i], has_bulk_copies ? 1 : 32);
      init_barrier(&empty[i], warps);
    }
    publish_barriers();
  }

  // By each warp, the codes of its own outputs: a lane copies 16 bytes of every fourth one.
  unsigned char* const own_codes = shared + layout.codes + warp * code_stages * code_stage_bytes;
  unsigned char* const copy_to =
      own_codes + lane / 8 * code_pitch + swizzled_part(lane / 8, lane % 8) * 16;
  UnitOfPass ahead;
  int ahead_stage = 0, ahead_outputs = 0;
  const std::uint8_t* copy_from = nullptr;
  std::int64_t bytes_of_4 = work.k * 4 / 2;
  keep(bytes_of_4);
  // In which a block of inputs exists; a row may end within a unit.
  const auto units_with = [&](int block) {
    return (all_blocks - block + unit_blocks - 1) / unit_blocks - first_unit;
  };
  const int copied_units = units_with(lane % 8 / 2), scaled_units = units_with(quad);
  const auto load_codes = [&] {
    if (ahead.pass < passes) {
      if (ahead.unit == 0) {
        const int first = ahead.pass * pass_outputs + warp * warp_outputs + lane / 8;
        const std::int64_t input = std::int64_t{first_unit} * unit_inputs + lane % 8 * 32;
        copy_from = work.codes + ((first_output + first) * work.k + input) / 2;
        ahead_outputs = outputs - first;
      }
      const bool in_row = ahead.unit < copied_units;
      const std::uint8_t* from = copy_from;
#pragma unroll
      for (int i = 0; i < warp_outputs / 4; ++i) {
        const bool exists = in_row && i * 4 < ahead_outputs;
        copy_16(copy_to + ahead_stage * code_stage_bytes + i * 4 * code_pitch, from, exists);
        from += bytes_of_4;
      }
      copy_from += code_pitch;
    }
    end_copy_group();
    ahead.next(units);
    if (++ahead_stage == code_stages) ahead_stage = 0;
  };
  for (int i = 0; i < code_stages - 1; ++i) load_codes();

  // The scales of a unit: this lane's are those of outputs `row` and `row + 8`, of block `quad`.
  typename Scales<Nested>::Loaded loaded[2];
  const Scales<Nested> scales_of(work.scales,
                                 first_output * work.k + std::int64_t{first_unit} * unit_inputs);
  const auto row_weights = static_cast<unsigned>(work.k);
  unsigned scale_weight = 0;
  int scale_outputs = 0;
  const auto load_scales = [&](const UnitOfPass& of) {
    if (of.unit == 0) {
      const int output = of.pass * pass_outputs + warp * warp_outputs + row;
      scale_weight = output * row_weights + quad * block_inputs;
      scale_outputs = outputs - output;
    }
    const bool in_row = of.unit < scaled_units;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      loaded[half] = {};
      if (in_row && half * 8 < scale_outputs) {
        loaded[half] = scales_of.load(scale_weight + half * 8 * row_weights);
      }
    }
    scale_weight += unit_inputs;
  };
  UnitOfPass now;
  load_scales(now);
  fill_table<Decode>(shared + table_begin, work.table);
  wait_for_launch_before();
  let_next_launch_begin();
  __syncthreads();

  // By the first warp: the next block of activations. Before a stage is written again, all warps
  // have used it.
  constexpr int stage_blocks = stage_blocks_of(Rows);
  const int unit_stages = units * (unit_blocks / stage_blocks);
  int to_load = passes * unit_stages, load_index = 0, load_stage = 0;
  unsigned load_parity = 1;
  const unsigned char* const arranged =
      work.arranged +
      (std::int64_t{row_tile} * work.units + first_unit) * unit_blocks * (Rows * 128);
  const auto load_activations = [&] {
    if (to_load == 0) return;
    --to_load;
    wait_for(&empty[load_stage], load_parity);
    unsigned char* const to = shared + layout.stage(load_stage);
    const unsigned char* const from = arranged + std::int64_t{load_index} * layout.stage_bytes;
    if constexpr (has_bulk_copies) {
      if (is_elected()) {
        arrive_expecting(&full[load_stage], layout.stage_bytes);
        copy_bulk(to, from, layout.stage_bytes, &full[load_stage]);
      }
      __syncwarp();
    } else {
      for (int at = lane * 16; at < layout.stage_bytes; at += 32 * 16) copy_16(to + at, from + at);
      arrive_after_copies(&full[load_stage]);
    }
    if (++load_index == unit_stages) load_index = 0;
    if (++load_stage == work.activation_stages) load_stage = 0, load_parity ^= 1;
  };
  if (warp == 0) {
    for (int i = 0; i < work.activation_stages - 2; ++i) load_activations();
  }

  const LaneTable<Decode> table(lane);
  // Of output `row` and the first block, in a stage; the block decides bits of its address.
  unsigned lane_codes = layout.codes + warp * code_stages * code_stage_bytes + row * code_pitch +
                        row % 4 * 32 + quad * 8;
  keep(lane_codes);
  constexpr int registers = Rows / 2;
  float sum[registers] = {};
  int code_stage = 0, stage = 0;
  unsigned parity = 0;

  while (now.pass < passes) {
    const float scales[2] = {scales_of.value(loaded[0]), scales_of.value(loaded[1])};
    const UnitOfPass unit = now;
    now.next(units);
    load_scales(now);

    wait_for_copies<code_stages - 2>();
    __syncwarp();
    load_codes();
    const unsigned char* const codes = shared + code_stage * code_stage_bytes;
    if (++code_stage == code_stages) code_stage = 0;

#pragma unroll
    for (int begin = 0; begin < unit_blocks; begin += stage_blocks) {
      // The stage before the last one, so that the first warp need not wait for the slowest.
      if (warp == 0) load_activations();
      float block_scales[stage_blocks][2];
      std::uint32_t weights[stage_blocks][4][4];
#pragma unroll
      for (int b = 0; b < stage_blocks; ++b) {
        const unsigned char* const block_codes = codes + (lane_codes ^ (begin + b) * 32);
        const float upper_scale = from_quad_lane(scales[0], begin + b);
        const float lower_scale = from_quad_lane(scales[1], begin + b);
        const uint2 upper = *reinterpret_cast<const uint2*>(block_codes);
        const uint2 lower = *reinterpret_cast<const uint2*>(block_codes + 8 * code_pitch);
        const auto decode = [&]<int FirstByte>(int j, std::uint32_t above, std::uint32_t below) {
          weights[b][j][0] = table.template weights<FirstByte>(above, upper_scale);
          weights[b][j][1] = table.template weights<FirstByte>(below, lower_scale);
          weights[b][j][2] = table.template weights<FirstByte + 1>(above, upper_scale);
          weights[b][j][3] = table.template weights<FirstByte + 1>(below, lower_scale);
        };
        decode.template operator()<0>(0, upper.x, lower.x);
        decode.template operator()<2>(1, upper.x, lower.x);
        decode.template operator()<0>(2, upper.y, lower.y);
        decode.template operator()<2>(3, upper.y, lower.y);
        block_scales[b][0] = upper_scale, block_scales[b][1] = lower_scale;
      }
      wait_for(&full[stage], parity);
      const unsigned char* const columns = shared + layout.stage(stage);

      float unscaled[stage_blocks][registers];
      if constexpr (has_wgmma) {
        const std::uint64_t described =
            swizzled_columns(layout.stage(0)) + stage * (layout.stage_bytes / 16);
        begin_multiplications();
#pragma unroll
        for (int b = 0; b < stage_blocks; ++b) {
          float(&into)[registers] = Decode::scales_sums ? unscaled[b] : sum;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            constexpr int described_bytes = 16;
            start_multiplication<Out>(into, weights[b][j],
                                      described + (b * Rows * 128 + j * 32) / described_bytes,
                                      !Decode::scales_sums || j > 0);
          }
        }
        end_multiplications();
#pragma unroll
        for (int b = 0; b < stage_blocks; ++b) {
          await_multiplications(Decode::scales_sums ? unscaled[b] : sum);
        }
      } else {
#pragma unroll
        for (int b = 0; b < stage_blocks; ++b) {
          float(&into)[registers] = Decode::scales_sums ? unscaled[b] : sum;
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
                return *reinterpret_cast<const std::uint32_t*>(
                    columns + (b * Rows + t * 8 + row) * 128 + (p ^ row) * 16 + quad * 4);
              };
              multiply_add<Out>(product, weights[b][j], pair(j * 2), pair(j * 2 + 1));
            }
#pragma unroll
            for (int r = 0; r < 4; ++r) into[t * 4 + r] = product[r];
          }
        }
      }
      __syncwarp();
      if (lane == 0) arrive(&empty[stage]);
      if (++stage == work.activation_stages) stage = 0, parity ^= 1;
      if constexpr (Decode::scales_sums) {
#pragma unroll
        for (int b = 0; b < stage_blocks; ++b) {
#pragma unroll
          for (int r = 0; r < registers; ++r) {
            sum[r] = fmaf(block_scales[b][r % 4 / 2], unscaled[b][r], sum[r]);
          }
        }
      }
    }

    if (now.unit != 0) continue;
    std::int64_t pitch = work.part_sums.parts > 1 ? PartSums::pitch(work.n) : work.n;
    keep(pitch);  // else the loop keeps addresses in registers that it has not
#pragma unroll
    for (int r = 0; r < registers; ++r) {
      const std::int64_t input_row = std::int64_t{row_tile} * Rows + r / 4 * 8 + quad * 2 + r % 2;
      const int output = unit.pass * pass_outputs + warp * warp_outputs + row + r % 4 / 2 * 8;
      if (input_row >= work.m || output >= outputs) continue;
      const std::int64_t at = input_row * pitch + first_output + output;
      if (work.part_sums.parts > 1) {
        work.part_sums.sums[part * work.m * pitch + at] = sum[r];
      } else {
        write_output<Out>(work.output, at, sum[r], work.bias, first_output + output);
      }
    }
#pragma unroll
    for (int r = 0; r < registers; ++r) sum[r] = 0;
  }
  wait_for_copies<0>();
#endif
}

/// Rows that a block takes at a time.
inline int row_tile_of(const Problem& problem) {
  return problem.m <= 16 ? 16 : problem.m <= 32 ? 32 : problem.m <= 64 ? 64 : 128;
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
    // Such that a group's weights can be counted in 31 bits.
    const std::int64_t groups = std::max(
        std::clamp<std::int64_t>(device.multiprocessors / parts, 1, blocks_over(problem.n, 64)),
        blocks_over(problem.n * problem.k, std::int64_t{1} << 30));
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
  std::int64_t arranged, part_sums;  ///< bytes of each, in this order

  ManyRowsWorkspace(const Problem& problem, const ManyRowsCut& cut) {
    const int rows = row_tile_of(problem);
    const std::int64_t row_tiles = blocks_over(problem.m, rows);
    arranged = row_tiles * blocks_over(problem.k, unit_inputs) * unit_blocks * rows * 128;
    part_sums = PartSums::bytes(cut.parts, problem.m, problem.n);
  }
};

inline std::uint64_t many_rows_workspace(const Problem& problem, const ManyRowsCut& cut) {
  const ManyRowsWorkspace workspace(problem, cut);
  return static_cast<std::uint64_t>(workspace.arranged + workspace.part_sums);
}

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, const Device& device,
                             cudaStream_t stream) {
  const ManyRowsWorkspace workspace(problem, cut);
  constexpr ManyRowsLayout layout(Rows, Warpgroups * 4);
  auto* const memory = static_cast<unsigned char*>(problem.workspace);
  const auto units = static_cast<int>(blocks_over(problem.k, unit_inputs));
  const ManyRows<Nested> work{.codes = problem.codes,
                              .input = problem.input,
                              .bias = problem.bias,
                              .output = problem.output,
                              .arranged = memory,
                              .part_sums = {reinterpret_cast<float*>(memory + workspace.arranged),
                                            cut.parts, problem.m, problem.n},
                              .m = problem.m,
                              .n = problem.n,
                              .k = problem.k,
                              .groups = cut.groups,
                              .units = units,
                              .activation_stages = layout.max_stages(device.shared_bytes),
                              .group_shares = {static_cast<int>(problem.n), cut.groups},
                              .part_shares = {units, cut.parts},
                              .scales = ScalesOf<Nested>(problem),
                              .table = table_of(problem)};
  const std::int64_t row_tiles = blocks_over(problem.m, Rows);
  if (const auto error =
          launch_kernel(arrange_activations<Out, Rows, Nested>,
                        {row_tiles * work.units * unit_blocks, std::min(Rows * 8, 256), 0, stream,
                         begins_early(problem, device)},
                        work);
      error != cudaSuccess) {
    return error;
  }
  // After the arrangement, which has waited, it reads nothing early but codes and scales.
  const auto error =
      launch_kernel(many_rows<Out, Decode, Rows, Warpgroups, Nested>,
                    {row_tiles * cut.groups * cut.parts, Warpgroups * 128,
                     layout.end(work.activation_stages), stream, device.capability >= 90},
                    work);
  return error != cudaSuccess ? error
                              : launch_add_parts<Out>(work.part_sums, problem, device, stream);
}

template <class Out, class Decode, bool Nested>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, cudaStream_t stream) {
  const Device device = current_device();
  // With 128 rows the sums need the registers of half as many threads.
  switch (row_tile_of(problem)) {
    case 16:
      return launch_many_rows<Out, Decode, 16, 4, Nested>(problem, cut, device, stream);
    case 32:
      return launch_many_rows<Out, Decode, 32, 4, Nested>(problem, cut, device, stream);
    case 64:
      return launch_many_rows<Out, Decode, 64, 4, Nested>(problem, cut, device, stream);
    default:
      return launch_many_rows<Out, Decode, 128, 2, Nested>(problem, cut, device, stream);
  }
}

template <class Out, class Decode>
cudaError_t launch_many_rows(const Problem& problem, const ManyRowsCut& cut, cudaStream_t stream) {
  return problem.is_nested() ? launch_many_rows<Out, Decode, true>(problem, cut, stream)
                             : launch_many_rows<Out, Decode, false>(problem, cut, stream);
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
  constexpr int max_warps = 16;
  if (device.shared_bytes < ManyRowsLayout(64, max_warps).end(0)) {
    return Support::no("needs 224 KiB of shared memory in a block");
  }
  if (const Support support = supports_matrix_operands(problem, device); !support.ok)
    return support;
  return is_compiled(many_rows<__half, Decode<__half>, 32, 4, false>);
}

}  // namespace reprolab::nf4_product
