// Digests of the machine code in a file, which show whether two measurements were of the same
// kernel.
//
// A digest is of what the GPU executes and reads as a constant: code, constant banks, initialised
// global memory, sizes of shared memory, registers, and where addresses are put in. Comments, line
// numbers, the order of functions and their names leave it alone (the names of what is in an
// unnamed namespace hold a hash of the file's path). It does not cover what the host decides: grid,
// block and dynamic shared memory of a launch.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reprolab::profiling {

/// The machine code of one source file for one architecture.
struct MachineCode {
  int capability = 0;  ///< 90 for sm_90; 0 of a cubin, whose header is not asked.
  std::string
      source{};  ///< From the root of the project; empty if it was not named, as in a cubin.
  std::string sha256{};
};

/// All machine code in a program, a library or an object file of this project's build, or the only
/// one of a cubin. Code that only the driver will compile is left out. Throws std::runtime_error if
/// the file cannot be read, or holds code in another form than is known.
///
/// Source of the format that nvcc embeds code in, which NVIDIA does not document: what fatbinary of
/// CUDA 12.4 to 13.0 writes; of ELF: the System V ABI, and readelf of cubins.
std::vector<MachineCode> machine_code_in(const std::filesystem::path& file);

/// A digest of PTX: of its lines without comments, line numbers and what debuggers need.
std::string ptx_digest(std::string_view text);

/// A digest of a file: of PTX (*.ptx) as above, of any other of all its bytes. Throws
/// std::runtime_error if it cannot be read.
std::string file_digest(const std::filesystem::path& file);

}  // namespace reprolab::profiling
