// Digests of the machine code in a file, which show whether two measurements were of the same
// kernel.
//
// A digest covers what the GPU executes and reads as a constant: code, constant banks, initialised
// global memory, sizes of shared memory, registers, and relocations. It does not depend on
// comments, line numbers, the order of functions and their names (names in an unnamed namespace
// contain a hash of the file's path), nor on the host's choices: grid, block and dynamic shared
// memory of a launch.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reprolab::profiling {

/// The machine code of one source file for one architecture.
struct MachineCode {
  int capability = 0;  ///< 90 for sm_90; 0 for a cubin, whose header is not read.
  std::string
      source{};  ///< From the root of the project; empty if it was not named, as in a cubin.
  std::string sha256{};
};

/// All machine code in a program, a library or an object file of this project's build, or the code
/// of a cubin. Code that only the driver will compile is omitted. Throws std::runtime_error if the
/// file cannot be read, or contains code of an unknown form.
///
/// Sources: for the format in which nvcc embeds code, which NVIDIA does not document, the output of
/// fatbinary of CUDA 12.4 to 13.0; for ELF the System V ABI, and readelf of cubins.
std::vector<MachineCode> machine_code_in(const std::filesystem::path& file);

/// A digest of PTX, without comments, line numbers and debug information.
std::string ptx_digest(std::string_view text);

/// A digest of a file: for PTX (*.ptx) as above, for any other file of all its bytes. Throws
/// std::runtime_error if it cannot be read.
std::string file_digest(const std::filesystem::path& file);

}  // namespace reprolab::profiling
