#include "experiments/harness/verifier.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace reprolab {
namespace {

template <class Bits>
std::span<const Bits> as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Bits*>(bytes.data()), bytes.size() / sizeof(Bits)};
}

/// The bits of one element; those of a 2-byte one in the low half.
std::uint32_t bits_of(std::span<const std::byte> array, std::int64_t index, int element_bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, array.data() + index * element_bytes, static_cast<std::size_t>(element_bytes));
  return bits;
}

Verification failed(std::string_view step, cudaError_t error) {
  return {Outcome::launch_failed,
          fmt::format("{}: {} ({})", step, cudaGetErrorString(error), cudaGetErrorName(error)),
          {}};
}

}  // namespace

reference::Comparison compare_on_host(std::span<const std::byte> expected,
                                      std::span<const std::byte> actual, int element_bytes) {
  if (element_bytes == 2) {
    return reference::compare_bits(as<std::uint16_t>(expected), as<std::uint16_t>(actual));
  }
  if (element_bytes == 4) {
    return reference::compare_bits(as<std::uint32_t>(expected), as<std::uint32_t>(actual));
  }
  throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
}

void Workload::write_expected(void* to, cudaStream_t stream) const {
  profiling::check(
      cudaMemcpyAsync(to, expected().data(), expected().size(), cudaMemcpyHostToDevice, stream),
      "copying the reference's output to the GPU");
}

Verifier::Verifier(const Workload& workload, const DeviceComparison& comparison,
                   cudaStream_t stream)
    : workload_(workload),
      comparison_(comparison),
      stream_(stream),
      expected_(workload.facts().output_bytes()) {
  const std::size_t on_host = workload.expected().size();
  if (on_host != 0 && on_host != workload.facts().output_bytes()) {
    throw std::logic_error(workload.facts().name + ": the reference's output has another size");
  }
  workload.write_expected(expected_.data(), stream);
}

void Verifier::poison(int slots) const {
  for (int slot = 0; slot < slots; ++slot) {
    profiling::check(cudaMemsetAsync(workload_.output(slot), poison_byte,
                                     workload_.facts().output_bytes(), stream_),
                     "poisoning an output");
  }
}

Verification Verifier::run(const VariantInfo& variant, int slot) const {
  const cudaError_t launched = workload_.launch(variant.name, slot, stream_);
  if (launched != cudaSuccess) {
    cudaGetLastError();  // or the next row would inherit it
    return failed("launch", launched);
  }
  const cudaError_t ran = cudaStreamSynchronize(stream_);
  if (ran == cudaSuccess) return {};
  if (cudaStreamSynchronize(stream_) != cudaSuccess) {
    throw std::runtime_error(fmt::format(
        "{} on {}: {} ({}); the GPU can run nothing more in this process, so mend the kernel or "
        "leave it out with --kernel",
        variant.name, workload_.facts().name, cudaGetErrorString(ran), cudaGetErrorName(ran)));
  }
  return failed("kernel", ran);
}

Verification Verifier::verify(const VariantInfo& variant) {
  if (const Support support = workload_.supports(variant.name); !support.ok) {
    return {Outcome::unsupported, support.reason, {}};
  }
  const bool on_host = workload_.expected().size() == workload_.facts().output_bytes();
  if (!on_host && !variant.deviation.empty()) {
    return {Outcome::unsupported,
            "its declared output is made on the host, for which the problem is too large",
            {}};
  }
  poison(workload_.slots());
  for (int slot = 0; slot < workload_.slots(); ++slot) {
    const Verification ran = run(variant, slot);
    if (ran.outcome == Outcome::launch_failed) return ran;
  }
  const Verification judged =
      on_host ? judge_on_host(variant) : judge_on_device(variant, workload_.output(0));
  if (!may_be_timed(judged.outcome)) return judged;
  const Verification copies = verify_again(variant, workload_.slots());
  return copies.outcome == judged.outcome ? judged : copies;
}

Verification Verifier::judge_on_host(const VariantInfo& variant) {
  const auto actual = bring_back(workload_.output(0));
  const auto expected = workload_.expected();
  const int element_bytes = workload_.facts().element_bytes;
  const auto from_reference = compare_on_host(expected, actual, element_bytes);
  const auto describe = [&](const reference::Comparison& found, std::span<const std::byte> wanted) {
    return workload_.describe(found, bits_of(wanted, found.first_mismatch, element_bytes),
                              bits_of(actual, found.first_mismatch, element_bytes));
  };
  if (variant.deviation.empty()) {
    if (from_reference.equal()) return {Outcome::bit_exact, "", {}};
    return {Outcome::mismatch, describe(from_reference, expected), from_reference};
  }
  const auto declared = wanted(variant);
  const auto from_declared = compare_on_host(declared, actual, element_bytes);
  if (!from_declared.equal()) {
    return {Outcome::mismatch,
            "does not deviate as declared: " + describe(from_declared, declared)};
  }
  // Where the declared output is the reference's own, the kernel is simply right.
  if (from_reference.equal()) return {Outcome::bit_exact, "", {}};
  return {Outcome::deviation_as_declared, describe(from_reference, expected), from_reference};
}

Verification Verifier::verify_again(const VariantInfo& variant, int slots) {
  Verification verdict;
  for (int slot = 0; slot < slots; ++slot) {
    verdict = judge_on_device(variant, workload_.output(slot));
    if (!may_be_timed(verdict.outcome)) {
      verdict.reason = fmt::format("copy {}: {}", slot, verdict.reason);
      return verdict;
    }
  }
  return verdict;
}

Verification Verifier::judge_on_device(const VariantInfo& variant, const void* output) {
  const std::int64_t elements = workload_.facts().elements;
  const int element_bytes = workload_.facts().element_bytes;
  const void* wanted_bits = wanted_on_device(variant);
  const auto found = comparison_.compare(wanted_bits, output, elements, element_bytes);
  if (!found.equal()) {
    return {Outcome::mismatch,
            workload_.describe(found, device_bits(wanted_bits, found.first_mismatch),
                               device_bits(output, found.first_mismatch)),
            variant.deviation.empty() ? found : reference::Comparison{}};
  }
  if (variant.deviation.empty()) return {Outcome::bit_exact};
  const auto deviation =
      comparison_.compare(expected_.data(), wanted_bits, elements, element_bytes);
  return {deviation.equal() ? Outcome::bit_exact : Outcome::deviation_as_declared};
}

const void* Verifier::wanted_on_device(const VariantInfo& variant) {
  if (variant.deviation.empty()) return expected_.data();
  const auto bits = wanted(variant);
  if (declared_on_device_.bytes() == 0) {
    declared_on_device_ = profiling::DeviceBuffer(bits.size());
    profiling::check(
        cudaMemcpy(declared_on_device_.data(), bits.data(), bits.size(), cudaMemcpyHostToDevice),
        "copying a declared output to the GPU");
  }
  return declared_on_device_.data();
}

std::span<const std::byte> Verifier::wanted(const VariantInfo& variant) {
  if (variant.deviation.empty()) return workload_.expected();
  if (declared_by_ != variant.name) {
    declared_.assign(workload_.facts().output_bytes(), static_cast<std::byte>(poison_byte));
    workload_.emulate(variant.name, declared_);
    declared_by_ = variant.name;
    declared_on_device_ = {};
  }
  return declared_;
}

std::uint32_t Verifier::device_bits(const void* array, std::int64_t index) const {
  const auto bytes = static_cast<std::size_t>(workload_.facts().element_bytes);
  std::uint32_t bits = 0;
  profiling::check(cudaMemcpy(&bits, static_cast<const std::byte*>(array) + index * bytes, bytes,
                              cudaMemcpyDeviceToHost),
                   "bringing an element back");
  return bits;
}

std::span<const std::byte> Verifier::bring_back(const void* output) {
  actual_.resize(workload_.facts().output_bytes());
  profiling::check(
      cudaMemcpyAsync(actual_.data(), output, actual_.size(), cudaMemcpyDeviceToHost, stream_),
      "bringing an output back");
  profiling::check(cudaStreamSynchronize(stream_), "bringing an output back");
  return actual_;
}

}  // namespace reprolab
