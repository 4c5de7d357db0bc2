// The product for more rows than few_rows takes. many_rows.cu says what it is for.
//
// How the work is cut. A block of threads owns a range of outputs, in passes of 64 for each of its
// warpgroups, and a range of the inputs. A warpgroup decodes its weights into registers, where they
// are the first operand of wgmma; the rows' activations come to shared memory as the second. While
// the tensor cores multiply a block of 64 inputs, the next one is decoded. Without wgmma each warp
// multiplies its 16 outputs by mma. The result does not depend on the other rows: an output is the
// sum over its inputs in their order, of parts that n and k alone decide.
//
// A launch of its own first writes the activations as they will lie in shared memory: in the order
// of inputs that lets a lane take 8 consecutive bytes of codes, and swizzled for wgmma. A stage is
// then one copy.
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
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + layout.barriers);
  auto* const empty = full + max_activation_stages;

  // What the block owns: outputs in passes, and units of inputs, for a tile of rows.
  // Every lane has the same, which the compiler then knows.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  // Blocks that read the same codes run at the same time.
  const int row_tiles = gridDim.x / (work.part_sums.parts * work.groups);
  const int row_tile = blockIdx.x % row_tiles;
  const int part = blockIdx.x / row_tiles % work.part_sums.parts;
  const int group = blockIdx.x / row_tiles / work.part_sums.parts;
  const std::int64_t first_output = work.group_shares.begin(group);
  const int outputs = work.group_shares.size(group);
  const int first_unit = work.part_shares.begin(part), units = work.part_shares.size(part);
  const auto all_blocks = static_cast<int>(work.k / block_inputs);
  const int passes = (outputs + pass_outputs - 1) / pass_outputs;

  if (threadIdx.x == 0) {
    for (int i = 0; i < work.activation_stages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], warps);
    }
    publish_barriers();
  }

  // The blocks of a row that lie in a unit or behind it; a row may end within a unit.
  const auto blocks_from = [&](int unit) { return all_blocks - (first_unit + unit) * unit_blocks; };
  const auto warps_output = [&](int pass) { return pass * pass_outputs + warp * warp_outputs; };

  // By each warp, the codes of its own outputs.
  constexpr int code_stages = layout.code_stages;
  std::uint64_t* const codes_full = empty + max_activation_stages + warp * code_stages;
  if (is_elected()) {
    for (int i = 0; i < code_stages; ++i) init_barrier(&codes_full[i], 1);
    publish_barriers();
  }
  const auto load_codes = [&](const UnitOfPass& of, int stage) {
    const int output = warps_output(of.pass);
    if (output < outputs && is_elected()) {
      arrive_expecting(&codes_full[stage], code_stage_bytes);
      bulk_load_tile(layout.codes(warp) + stage * code_stage_bytes, &work.codes,
                     static_cast<int>(first_output) + output, (first_unit + of.unit) * code_pitch,
                     shared_address(&codes_full[stage]));
    }
    __syncwarp();
  };
  UnitOfPass ahead;
  for (int i = 0; i < code_stages - 1; ++i) {
    load_codes(ahead, i);
    ahead = ahead.next(units);
  }

  // The scales of a unit: a lane's are those of its two outputs, of block lane % 4.
  typename Scales<Nested>::Loaded loaded[2];
  const Scales<Nested> scales_of(work.scales,
                                 first_output * work.k + std::int64_t{first_unit} * unit_inputs);
  const auto row_weights = static_cast<unsigned>(work.k);
  const auto load_scales = [&](const UnitOfPass& of) {
    const unsigned lane = this_lane();
    const int quad = lane % 4, output = warps_output(of.pass) + row_of_lane(lane);
    const bool in_row = quad < blocks_from(of.unit);
    const unsigned first = output * row_weights + of.unit * unit_inputs + quad * block_inputs;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      loaded[half] = {};
      if (in_row && output + half * 8 < outputs) {
        loaded[half] = scales_of.load(first + half * 8 * row_weights);
      }
    }
  };
  load_scales({});
  auto* const map = reinterpret_cast<float*>(shared + layout.map);
  const float of_map = Nested ? __ldg(work.scales.nested.map + threadIdx.x % 256) : 0;
  fill_table<Decode>(shared + table_begin, work.table);
  if (Nested && threadIdx.x < 256) map[threadIdx.x] = of_map;
  wait_for_launch_before();
  let_next_launch_begin();
  __syncthreads();

  // By the first warp: the next block of activations. Before a stage is written again, all warps
  // have used it.
  constexpr int stage_blocks = layout.stage_blocks;
  const int unit_stages = units * (unit_blocks / stage_blocks);
  int to_load = passes * unit_stages, load_index = 0, load_stage = 0;
  unsigned load_parity = 1;
  const unsigned char* const arranged =
      work.arranged +
      (std::int64_t{row_tile} * work.units + first_unit) * unit_blocks * (Rows * 128);
  // Stages that may still be used when the first warp asks for one to be filled.
  const int lag = work.activation_stages > 5 ? 3 : 2;
  const auto load_activations = [&] {
    if (to_load == 0) return;
    --to_load;
    wait_for(&empty[load_stage], load_parity);
    unsigned char* const to = shared + layout.stage(load_stage);
    const unsigned char* const from = arranged + std::int64_t{load_index} * layout.stage_bytes;
    if (is_elected()) {
      arrive_expecting(&full[load_stage], layout.stage_bytes);
      copy_bulk(to, from, layout.stage_bytes, &full[load_stage]);
    }
    __syncwarp();
    if (++load_index == unit_stages) load_index = 0;
    if (++load_stage == work.activation_stages) load_stage = 0, load_parity ^= 1;
  };
  if (warp == 0) {
    for (int i = 0; i < work.activation_stages - lag; ++i) load_activations();
  }

  // Each turn multiplies a unit: its codes and scales are there, those of the next on their way.
  const LaneTable<Decode> table(this_lane());
  // Of the lane's first output and the first block, in a stage; the block decides bits of its
  // address.
  const unsigned row = row_of_lane(this_lane()), quad = this_lane() % 4;
  unsigned lane_codes =
      layout.codes(warp) + row * code_pitch + (quad / 2 ^ row % 8) * 16 + quad % 2 * 8;
  keep(lane_codes);
  constexpr int registers = Rows / 2;
  float sum[registers] = {};
  int code_turn = 0;  // of twice the stages: a barrier's phase has the parity of the half
  int stage = 0;
  unsigned parity = 0;

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

  // The codes of a block, of the lane's two outputs: of the next one, so that no decoding waits for
  // them, unless the block's multiplications take longer.
  constexpr bool reads_ahead = Rows < 256;
  uint2 block_codes[2] = {};
  const auto read_codes = [&](int code_stage, int b) {
    const unsigned char* const codes =
        shared + code_stage * code_stage_bytes + (lane_codes ^ b * 32);
    block_codes[0] = *reinterpret_cast<const uint2*>(codes);
    block_codes[1] = *reinterpret_cast<const uint2*>(codes + 8 * code_pitch);
  };
  // Those of a unit's first block, when they are there.
  const auto read_first_codes = [&](int pass) {
    const int is_odd = code_turn >= code_stages, code_stage = code_turn - is_odd * code_stages;
    if (warps_output(pass) >= outputs) return;
    wait_for(&codes_full[code_stage], is_odd);
    read_codes(code_stage, 0);
  };
  if (reads_ahead) read_first_codes(0);

  for (int pass = 0; pass < passes; ++pass) {
    const bool has_outputs = warps_output(pass) < outputs;
    for (int unit = 0; unit < units; ++unit) {
      const Scale scales[2] = {Decode::scale(scales_of.value(loaded[0], map)),
                               Decode::scale(scales_of.value(loaded[1], map))};
      const UnitOfPass next = UnitOfPass{pass, unit}.next(units);
      load_scales(next);

      __syncwarp();  // all lanes have read the codes that are written over
      const int code_stage = code_turn - (code_turn >= code_stages ? code_stages : 0);
      load_codes(code_stages == 3 ? next.next(units) : next,
                 (code_stage == 0 ? code_stages : code_stage) - 1);
      if (!reads_ahead) read_first_codes(pass);
      if (++code_turn == 2 * code_stages) code_turn = 0;

#pragma unroll
      for (int b = 0; b < unit_blocks; ++b) {
        const bool begins_stage = b % stage_blocks == 0;
        // Behind the last stages, so that the first warp need not wait for the slowest.
        if (begins_stage && warp == 0) load_activations();
        // Decode: a lane's weights of the block are four operands.
        const Scale upper_scale = __shfl_sync(~0u, scales[0], b, 4);
        const Scale lower_scale = __shfl_sync(~0u, scales[1], b, 4);
        if (has_outputs) {
          if (!reads_ahead && b > 0) read_codes(code_stage, b);
          const uint2 upper = block_codes[0], lower = block_codes[1];
          const auto decode = [&]<int FirstByte>(int j, std::uint32_t above, std::uint32_t below) {
            table.template decode<FirstByte>(weights[b % 2][j], above, below, upper_scale,
                                             lower_scale);
          };
          decode.template operator()<0>(0, upper.x, lower.x);
          decode.template operator()<2>(1, upper.x, lower.x);
          decode.template operator()<0>(2, upper.y, lower.y);
          decode.template operator()<2>(3, upper.y, lower.y);
          if (reads_ahead && b + 1 < unit_blocks) read_codes(code_stage, b + 1);
        }
        if (reads_ahead && b + 1 == unit_blocks) read_first_codes(next.pass);

        if (begins_stage) wait_for(&full[stage], parity);
        // The block before it is finished where its result, or its operands' registers, are needed.
        const bool has_before = b > 0 || unit > 0;  // in this pass
        const bool ends_stage = (b + 1) % stage_blocks == 0;
        if constexpr (has_wgmma) {
          await_multiplications(Decode::scales_sums ? unscaled : sum);
          if (has_before) finish(begins_stage);
        }
        block_scales[0] = upper_scale, block_scales[1] = lower_scale;
        start_block<Out, Rows, Warpgroups>(Decode::scales_sums ? unscaled : sum, weights[b % 2],
                                           !Decode::scales_sums, shared, stage, b % stage_blocks);
        used_stage = stage;
        if constexpr (!has_wgmma) finish(ends_stage);
        if (ends_stage && ++stage == work.activation_stages) stage = 0, parity ^= 1;
      }
    }
    if constexpr (has_wgmma) {
      await_multiplications(Decode::scales_sums ? unscaled : sum);
      finish(true);
    }

    // After a pass's last unit its sums are written.
    const int output = warps_output(pass) + row_of_lane(this_lane());
    write_sums<Out, Rows>(work, part, std::int64_t{row_tile} * Rows + this_lane() % 4 * 2,
                          first_output + output, outputs - output, sum);
#pragma unroll
    for (int r = 0; r < registers; ++r) sum[r] = 0;
  }
#endif
}

}  // namespace reprolab::nf4_product
