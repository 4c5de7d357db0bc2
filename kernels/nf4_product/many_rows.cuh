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

#include "kernels/nf4_product/many_rows_steps.cuh"
#include "kernels/nf4_product/wgmma.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
__global__ void __launch_bounds__(Warpgroups * 128, 1) many_rows(const ManyRows<Nested> work) {
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  constexpr int warps = Warpgroups * 4, pass_outputs = warps * warp_outputs;
  constexpr ManyRowsLayout layout(Rows, warps);
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const empty = full + max_activation_stages;

  // What the block owns: outputs in passes, and units of inputs, for a tile of rows.
  // Every lane has the same, which the compiler then knows.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
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

  // Each turn multiplies a unit: its codes and scales are there, those of the next on their way.
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
      // Decode: a lane's weights of each block are four operands.
      float block_scales[stage_blocks][2];
      std::uint32_t weights[stage_blocks][4][4];
#pragma unroll
      for (int b = 0; b < stage_blocks; ++b) {
        const unsigned char* const block_codes = codes + (lane_codes ^ (begin + b) * 32);
        const float upper_scale = __shfl_sync(~0u, scales[0], begin + b, 4);
        const float lower_scale = __shfl_sync(~0u, scales[1], begin + b, 4);
        const uint2 upper = *reinterpret_cast<const uint2*>(block_codes);
        const uint2 lower = *reinterpret_cast<const uint2*>(block_codes + 8 * code_pitch);
        const auto decode = [&]<int FirstByte>(int j, std::uint32_t above, std::uint32_t below) {
          table.template decode<FirstByte>(weights[b][j], above, below, upper_scale, lower_scale);
        };
        decode.template operator()<0>(0, upper.x, lower.x);
        decode.template operator()<2>(1, upper.x, lower.x);
        decode.template operator()<0>(2, upper.y, lower.y);
        decode.template operator()<2>(3, upper.y, lower.y);
        block_scales[b][0] = upper_scale, block_scales[b][1] = lower_scale;
      }
      wait_for(&full[stage], parity);
      const unsigned char* const columns = shared + layout.stage(stage);

      // Multiply: by wgmma a warpgroup's 64 outputs, else by mma a warp's 16, for 8 rows each.
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
                return activation_pair(columns, b * Rows + t * 8, row, p, quad);
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
      // Scale the sums of a block.
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

    // After a pass's last unit its sums are written.
    if (now.unit != 0) continue;
    std::int64_t pitch = work.part_sums.parts > 1 ? PartSums::pitch(work.n) : work.n;
    keep(pitch);  // else the loop keeps addresses in registers that it has not
#pragma unroll
    for (int r = 0; r < registers; ++r) {
      const std::int64_t input_row = std::int64_t{row_tile} * Rows + r / 4 * 8 + quad * 2 + r % 2;
      const int output = unit.pass * pass_outputs + warp * warp_outputs + row + r % 4 / 2 * 8;
      if (input_row >= work.m || output >= outputs) continue;
      write_sum<Out>(work, part, input_row, pitch, first_output + output, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < registers; ++r) sum[r] = 0;
  }
  wait_for_copies<0>();
#endif
}

}  // namespace reprolab::nf4_product
