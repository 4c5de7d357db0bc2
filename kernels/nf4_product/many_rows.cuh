// The product for more rows than few_rows takes. many_rows.cu says what it is for.
//
// How the work is cut. A block of threads owns a range of outputs, in passes of 64 for each of its
// warpgroups, and a range of the inputs. A warpgroup decodes its weights into registers, where they
// are the first operand of wgmma; the rows' activations come to shared memory as the second. While
// the tensor cores multiply a block of 64 inputs, the next one is decoded. Without wgmma each warp
// multiplies its 16 outputs by mma. The result does not depend on the other rows: an output is the
// sum over its inputs in their order, of parts that n, k and the GPU alone decide. A second launch
// adds the parts. Of 256 rows, blocks share those of outputs that are left over (OutputShares).
//
// Codes and activations are copied to shared memory as they lie. In a row of codes, a lane has
// every fourth byte: the two inputs that wgmma wants of it.
#pragma once

#include "kernels/nf4_product/many_rows_steps.cuh"

namespace reprolab::nf4_product {

template <class Out, class Decode, int Rows, int Warpgroups, bool Nested>
__global__ void __launch_bounds__(Warpgroups * 128, 1)
    many_rows(const __grid_constant__ ManyRows<Nested> work) {
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
  if constexpr (Rows > 128 && !has_wgmma) __trap();  // max_row_tile() sees to it
  extern __shared__ __align__(1024) unsigned char dynamic[];
  unsigned char* const shared = shared_origin(dynamic);
  using Scale = typename Decode::Scale;
  constexpr int warps = Warpgroups * 4, pass_outputs = warps * warp_outputs;
  constexpr ManyRowsLayout layout(Rows, warps);
  constexpr int activation_stages = layout.activation_stages;
  constexpr int registers = Rows / 2;  // of a sum
  constexpr bool registers_are_few =
      Warpgroups == 4 && registers * (Decode::scales_sums ? 2 : 1) == 64;
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + barriers_begin);
  auto* const empty = full + max_activation_stages;

  // What the block owns: outputs in passes, and units of inputs, for a tile of rows.
  // Every lane has the same, which the compiler then knows.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), warpgroup = warp / 4;
  // Blocks that read the same codes run at the same time.
  const int parts = work.tile_sums.parts;
  const int row_tiles = gridDim.x / (parts * work.output_shares.groups);
  const int row_tile = blockIdx.x % row_tiles;
  const int part = blockIdx.x / row_tiles % parts;
  const int group = blockIdx.x / row_tiles / parts;
  const GroupOutputs outputs = work.output_shares.of(group);
  const int first_unit = work.part_shares.begin(part), units = work.part_shares.size(part);
  const int passes = (outputs.all + pass_outputs - 1) / pass_outputs;
  const auto warpgroups_output = [&](int pass) {
    return pass * pass_outputs + warpgroup * warpgroup_outputs;
  };
  const auto warps_output = [&](int pass) { return pass * pass_outputs + warp * warp_outputs; };

  constexpr int code_stages = layout.code_stages;
  std::uint64_t* const codes_full = empty + max_activation_stages + warpgroup * 2 * code_stages;
  std::uint64_t* const codes_empty = codes_full + code_stages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < activation_stages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], warps);
    }
    order_before_bulk_copies();
  }
  if (threadIdx.x % 128 == 0) {
    for (int i = 0; i < code_stages; ++i) {
      init_barrier(&codes_full[i], 1);
      init_barrier(&codes_empty[i], 4);
    }
    order_before_bulk_copies();
  }
  __syncwarp();

  // By one warp of a warpgroup, the codes of its outputs in that unit of a pass, or of one after
  // it.
  const auto load_codes = [&](int pass, int unit, int stage) {
    for (; unit >= units; unit -= units) ++pass;
    const int output = warpgroups_output(pass);
    if (output < outputs.all && is_elected()) {
      arrive_expecting(&codes_full[stage], code_stage_bytes);
      bulk_load_tile(layout.codes(warpgroup) + stage * code_stage_bytes, &work.codes,
                     outputs.first + outputs.place(output), (first_unit + unit) * code_pitch,
                     shared_address(&codes_full[stage]));
    }
    __syncwarp();
  };
  if (warp % 4 == 0) {
    for (int i = 0; i < code_stages - 1; ++i) load_codes(0, i, i);
  }

  // The scales of a unit: a lane's are those of its two outputs, or of the last one, of block
  // lane % 4. A row may not have that any more; then the last block's are loaded, and not used.
  typename Scales<Nested>::Loaded loaded[2];
  const Scales<Nested> scales_of(work.scales,
                                 outputs.first * work.k + std::int64_t{first_unit} * unit_inputs);
  const int last_block = static_cast<int>(work.k / block_inputs) - first_unit * unit_blocks - 1;
  unsigned upper_weight = 0, to_lower = 0;  // the first of the lane's first output; to its second
  int scales_block = 0;
  const auto load_scales = [&] {
    const unsigned weight = upper_weight + min(scales_block, last_block) * block_inputs;
    loaded[0] = scales_of.load(weight);
    loaded[1] = scales_of.load(weight + to_lower);
  };
  const auto load_first_scales = [&](int pass) {
    const int output = warps_output(pass) + static_cast<int>(this_lane() / 4);
    const int upper = outputs.place(min(output, outputs.all - 1));
    const int lower = outputs.place(min(output + 8, outputs.all - 1));
    upper_weight = upper * static_cast<unsigned>(work.k);
    to_lower = (lower - upper) * static_cast<unsigned>(work.k);
    scales_block = this_lane() % 4;
    load_scales();
  };
  load_first_scales(0);
  auto* const map = reinterpret_cast<float*>(shared + map_begin);
  const float of_map = Nested ? __ldg(work.scales.nested.map + threadIdx.x % 256) : 0;
  fill_table<Decode>(shared + table_begin, work.table);
  if (Nested && threadIdx.x < 256) map[threadIdx.x] = of_map;
  wait_for_launch_before();
  let_next_launch_begin();
  __syncthreads();

  // By the last warp, which has the fewest outputs: the next stage of activations. Before a stage
  // is written again, all warps have used it.
  constexpr int stage_blocks = layout.stage_blocks;
  const int unit_stages = units * (unit_blocks / stage_blocks);
  int stages_to_load = passes * unit_stages, load_index = 0;
  Turn load_turn{.parity = 1};
  // Stages that may still be used when one is asked for.
  constexpr int lag = activation_stages > 5 ? 3 : 2;
  const auto load_activations = [&] {
    if (stages_to_load == 0) return;
    --stages_to_load;
    wait_for(&empty[load_turn.stage], load_turn.parity);
    if (is_elected()) {
      arrive_expecting(&full[load_turn.stage], layout.stage_bytes);
#pragma unroll
      for (int b = 0; b < stage_blocks; ++b) {
        bulk_load_tile(layout.stage(load_turn.stage) + b * Rows * 128, &work.activations,
                       row_tile * Rows,
                       first_unit * unit_inputs + (load_index * stage_blocks + b) * block_inputs,
                       shared_address(&full[load_turn.stage]));
      }
    }
    __syncwarp();
    if (++load_index == unit_stages) load_index = 0;
    load_turn.next(activation_stages);
  };
  if (warp == warps - 1) {
    for (int i = 0; i < activation_stages - lag; ++i) load_activations();
  }

  // Each turn multiplies a unit: its codes and scales are there, those of the next on their way.
  const LaneTable<Decode> table(this_lane());
  // A quarter of the codes: at 256 rows faster than none and as fast as half; below, none is.
  constexpr bool looks_up_in_registers = Rows == 256 && RegisterTable<Decode>::fits;
  const RegisterTable<Decode> register_table(work.table, this_lane());
  unsigned row_of_own_byte = table.row_of_own_byte();
  if (!registers_are_few) keep(row_of_own_byte);
  // Of the lane's first output and the first block, in a stage, swizzled; the block, and which half
  // of it, decide bits of its address.
  const unsigned row = this_lane() / 4;
  unsigned lane_codes =
      layout.codes(warpgroup) + (warp % 4 * warp_outputs + row) * code_pitch + row * 16;
  keep(lane_codes);
  float sum[registers] = {};
  Turn turn;

  std::uint32_t weights[2][4][4] = {};  // of the block that is multiplied, and of the next
  float unscaled[registers];            // the sum over a block
  Scale block_scales[2];                // and its scales
  int used_stage = 0;
  // When a block's multiplications are done.
  const auto finish = [&](bool ends_stage) {
    if (ends_stage) {
      __syncwarp();
      if (is_elected()) arrive(&empty[used_stage]);
    }
    if constexpr (Decode::scales_sums) {
#pragma unroll
      for (int r = 0; r < registers; ++r) {
        sum[r] = fmaf(block_scales[r % 4 / 2], unscaled[r], sum[r]);
      }
    }
  };

  // The codes of a block, of the lane's two outputs, in halves. As many of the next block are read
  // before the multiplications start as there are registers for: wgmma keeps shared memory busy.
  constexpr int halves_ahead = registers_are_few ? !Nested && !Decode::scales_sums
                               : Rows <= 64      ? 2
                                                 : 1;
  Turn code_turn;
  uint4 block_codes[2][2] = {};
  unsigned stage_codes = lane_codes;
  const auto read_codes = [&](int b, int half) {
    if (b == 0 && half == 0) {
      stage_codes = lane_codes + code_turn.stage * code_stage_bytes;
      keep(stage_codes);
    }
    const unsigned char* const codes = shared + (stage_codes ^ (b * 2 + half) * 16);
    block_codes[half][0] = *reinterpret_cast<const uint4*>(codes);
    block_codes[half][1] = *reinterpret_cast<const uint4*>(codes + 8 * code_pitch);
  };
  const auto read_codes_ahead = [&](int b) {
#pragma unroll
    for (int half = 0; half < halves_ahead; ++half) read_codes(b, half);
  };

  for (int pass = 0; pass < passes; ++pass) {
    const bool has_codes = warpgroups_output(pass) < outputs.all;
    const bool has_outputs = warps_output(pass) < outputs.all;
    const bool shares_rows = may_share_rows(Rows) && warpgroups_output(pass) >= outputs.own;
    const int sharers = shares_rows ? work.output_shares.sharers : 1;
    const int first_row = group % sharers * (Rows / sharers);
    if (has_codes) wait_for(&codes_full[code_turn.stage], code_turn.parity);
    if (has_outputs) read_codes_ahead(0);
    for (int unit = 0; unit < units; ++unit) {
      const bool in_row = scales_block <= last_block;
      const Scale scales[2] = {Decode::scale(in_row ? scales_of.value(loaded[0], map) : 0),
                               Decode::scale(in_row ? scales_of.value(loaded[1], map) : 0)};
      scales_block += unit_blocks;
      load_scales();

#pragma unroll
      for (int b = 0; b < unit_blocks; ++b) {
        const bool begins_stage = b % stage_blocks == 0;
        // Behind the last stages, so that it need not wait for the slowest warp.
        if (begins_stage && warp == warps - 1) load_activations();
        // In place of those that were loaded behind a pass's last unit.
        if (b == 1 && unit + 1 == units) load_first_scales(pass + 1);
        // By the warps of a warpgroup in turn, behind the unit before.
        if (b == 1 && has_codes && unit % 4 == warp % 4) {
          const Turn before = code_turn.before(code_stages);
          wait_for(&codes_empty[before.stage], before.parity);
          load_codes(pass, unit + code_stages - 1, before.stage);
        }
        // Decode: a lane's weights of the block are four operands.
        const Scale upper_scale = __shfl_sync(~0u, scales[0], b, 4);
        const Scale lower_scale = __shfl_sync(~0u, scales[1], b, 4);
        if (has_outputs) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if (half + halves_ahead < 2) read_codes(b, half + halves_ahead);
            const uint4 upper = block_codes[half][0], lower = block_codes[half][1];
            auto* const to = &weights[b % 2][half * 2];
            table.decode(to[0], {upper.x, upper.y}, {lower.x, lower.y}, row_of_own_byte,
                         upper_scale, lower_scale);
            if (looks_up_in_registers && half == 0) {
              register_table.decode(to[1], {upper.z, upper.w}, {lower.z, lower.w}, upper_scale,
                                    lower_scale);
            } else {
              table.decode(to[1], {upper.z, upper.w}, {lower.z, lower.w}, row_of_own_byte,
                           upper_scale, lower_scale);
            }
          }
        }
        if (b + 1 < unit_blocks) {
          if (has_outputs) read_codes_ahead(b + 1);
        } else {
          if (has_codes) {
            __syncwarp();  // all lanes have read the unit's codes
            if (is_elected()) arrive(&codes_empty[code_turn.stage]);
          }
          code_turn.next(code_stages);
          if (has_codes && unit + 1 < units) {
            wait_for(&codes_full[code_turn.stage], code_turn.parity);
            if (has_outputs) read_codes_ahead(0);
          }
        }

        if (begins_stage) wait_for(&full[turn.stage], turn.parity);
        // The block before it is finished where its result, or its operands' registers, are needed.
        const bool has_before = b > 0 || unit > 0;  // in this pass
        const bool ends_stage = (b + 1) % stage_blocks == 0;
        if constexpr (has_wgmma) {
          await_multiplications(Decode::scales_sums ? unscaled : sum);
          if (has_before) finish(begins_stage);
        }
        block_scales[0] = upper_scale, block_scales[1] = lower_scale;
        const auto start = [&]<int Multiplied>() {
          start_block<Out, Rows, Warpgroups, Multiplied>(
              Decode::scales_sums ? unscaled : sum, weights[b % 2], !Decode::scales_sums, shared,
              turn.stage, b % stage_blocks, first_row);
        };
        if (has_codes && sharers == 1) start.template operator()<Rows>();
        if constexpr (may_share_rows(Rows)) {
          if (has_codes && sharers == 2) start.template operator()<Rows / 2>();
          if (has_codes && sharers == 4) start.template operator()<Rows / 4>();
        }
        used_stage = turn.stage;
        if constexpr (!has_wgmma) finish(ends_stage);
        if (ends_stage) turn.next(activation_stages);
      }
    }
    if constexpr (has_wgmma) {
      await_multiplications(Decode::scales_sums ? unscaled : sum);
      finish(true);
    }

    // After a pass's last unit its sums are written.
    const std::int64_t row = std::int64_t{row_tile} * Rows + first_row;
    const std::int64_t rows = Rows / sharers;
    const int output = warps_output(pass);
    write_sums<Out, Rows>(work, part, row, static_cast<int>(min(work.m - row, rows)),
                          outputs.first + outputs.place(output), outputs.all - output, sum);
#pragma unroll
    for (int r = 0; r < registers; ++r) sum[r] = 0;
  }
#endif
}

}  // namespace reprolab::nf4_product
