#include "profiling/machine_code.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "profiling/sha256.hpp"

namespace reprolab::profiling {
namespace {

constexpr std::uint16_t cuda_machine = 190;  // EM_CUDA

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

std::string_view part(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) refuse("is cut short");
  return bytes.substr(offset, size);
}

template <class T>
T read(std::string_view bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, part(bytes, offset, sizeof value).data(), sizeof value);
  return value;
}

class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes), header_(read<Elf64_Ehdr>(bytes, 0)) {
    if (!bytes.starts_with(ELFMAG) || header_.e_ident[EI_CLASS] != ELFCLASS64) {
      refuse("is not a 64-bit ELF file");
    }
    for (std::uint64_t i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(read<Elf64_Shdr>(bytes, header_.e_shoff + i * header_.e_shentsize));
    }
  }

  std::uint16_t machine() const { return header_.e_machine; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  std::string_view name(const Elf64_Shdr& section) const {
    const auto names = content(sections_.at(header_.e_shstrndx));
    const auto rest = part(names, section.sh_name, names.size() - section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }

  std::string_view content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return {};
    return part(bytes_, section.sh_offset, section.sh_size);
  }

 private:
  std::string_view bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

/// The kind of a cubin's section, without its kernel's name; empty for sections that the GPU does
/// not use.
std::string_view kind_of(std::string_view name) {
  for (const std::string_view kind : {".text", ".nv.global.init", ".nv.global", ".nv.shared"}) {
    if (name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == '.')) {
      return kind;
    }
  }
  // .nv.constant0.kernel: the bank is part of the kind.
  if (name.starts_with(".nv.constant")) return name.substr(0, name.find('.', 4));
  return {};
}

/// One line for each relocation of a section.
std::string relocations(const Elf& cubin, const Elf64_Shdr& table) {
  const auto& symbols = cubin.sections().at(table.sh_link);
  const auto content = cubin.content(table);
  const bool has_addend = table.sh_type == SHT_RELA;
  const std::uint64_t step = has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
  std::vector<std::string> lines;
  for (std::uint64_t at = 0; at < content.size(); at += step) {
    const auto entry = read<Elf64_Rel>(content, at);
    const auto symbol =
        read<Elf64_Sym>(cubin.content(symbols), ELF64_R_SYM(entry.r_info) * sizeof(Elf64_Sym));
    const bool is_here = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE;
    const auto target =
        is_here ? kind_of(cubin.name(cubin.sections().at(symbol.st_shndx))) : std::string_view{};
    const auto addend = has_addend ? read<Elf64_Rela>(content, at).r_addend : 0;
    lines.push_back(fmt::format("{:x} {:x} {:x} {:x} {}\n", entry.r_offset,
                                ELF64_R_TYPE(entry.r_info), static_cast<std::uint64_t>(addend),
                                symbol.st_value, target));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, ""));
}

/// A line for every section; sorted, because ptxas orders sections by names that hold hashes.
std::string digest_of(const Elf& cubin) {
  std::vector<std::string> lines;
  for (const auto& section : cubin.sections()) {
    const bool relocates = section.sh_type == SHT_REL || section.sh_type == SHT_RELA;
    if (relocates) {
      const auto kind = kind_of(cubin.name(cubin.sections().at(section.sh_info)));
      if (kind.empty()) continue;
      lines.push_back(fmt::format("into {} {}", kind, sha256(relocations(cubin, section))));
      continue;
    }
    const auto kind = kind_of(cubin.name(section));
    if (kind.empty() || section.sh_size == 0) continue;
    // ptxas stores the number of registers in the bits above the index of a symbol.
    const std::uint32_t registers = kind == ".text" ? section.sh_info >> 24 : 0;
    lines.push_back(fmt::format("{} {:x} {:x} {}", kind, section.sh_size, registers,
                                sha256(cubin.content(section))));
  }
  if (lines.empty()) return "";
  std::ranges::sort(lines);
  Sha256 all;
  for (const auto& line : lines) all.update(line).update("\n");
  return all.hex();
}

/// The container that nvcc embeds code in: a header, and entries of PTX and of cubins.
struct Container {
  static constexpr std::uint32_t magic = 0xba55ed50;
  std::uint32_t found_magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< Size of the entries.
};

struct Entry {
  static constexpr std::uint16_t cubin = 2;
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< Size after the header.
  std::uint32_t compressed_bytes, unused, version_of_code, capability, name_offset, name_bytes;
};

void add_container(std::string_view entries, std::vector<MachineCode>& codes) {
  while (!entries.empty()) {
    const auto entry = read<Entry>(entries, 0);
    if (entry.header_bytes < sizeof(Entry)) refuse("is damaged");
    const auto header = part(entries, 0, entry.header_bytes);
    const auto content = part(entries, entry.header_bytes, entry.bytes);
    if (entry.kind == Entry::cubin) {
      if (entry.compressed_bytes != 0) refuse("has compressed code; build it with --no-compress");
      const std::string digest = digest_of(Elf(content));
      const auto name = part(header, entry.name_offset, entry.name_bytes);
      if (!digest.empty()) {
        codes.push_back({static_cast<int>(entry.capability), std::string(name), digest});
      }
    }
    entries.remove_prefix(header.size() + content.size());
  }
}

std::string content_of(const std::filesystem::path& file) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
    refuse("is not a regular file");
  }
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) refuse("cannot be read");
  return bytes;
}

/// Calls `use` and adds the file's name to its errors.
template <class Use>
auto of_file(const std::filesystem::path& file, Use use) {
  try {
    return use();
  } catch (const std::exception& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

std::vector<MachineCode> machine_code_of(std::string_view bytes) {
  const Elf elf(bytes);
  if (elf.machine() == cuda_machine) return {{.sha256 = digest_of(elf)}};
  std::vector<MachineCode> codes;
  for (const auto& section : elf.sections()) {
    if (elf.name(section) != ".nv_fatbin") continue;
    // Between the containers of several objects there are zeros.
    for (auto rest = elf.content(section); rest.size() >= sizeof(Container);) {
      const auto container = read<Container>(rest, 0);
      if (container.found_magic != Container::magic) {
        rest.remove_prefix(8);
        continue;
      }
      if (container.header_bytes < sizeof(Container)) refuse("is damaged");
      add_container(part(rest, container.header_bytes, container.bytes), codes);
      rest.remove_prefix(container.header_bytes + container.bytes);
    }
  }
  return codes;
}

}  // namespace

std::vector<MachineCode> machine_code_in(const std::filesystem::path& file) {
  return of_file(file, [&] { return machine_code_of(content_of(file)); });
}

std::string ptx_digest(std::string_view text) {
  Sha256 digest;
  for (bool debugs = false; !text.empty();) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find("//"));
    const auto start = line.find_first_not_of(" \t\r");
    if (start == line.npos) continue;
    line = line.substr(start, line.find_last_not_of(" \t\r") + 1 - start);
    debugs = debugs || line.starts_with(".section");
    const bool is_place = line.starts_with(".loc") || line.starts_with(".file") ||
                          (line.starts_with("$L__tmp") && line.ends_with(':'));
    if (!debugs && !is_place) digest.update(line).update("\n");
    if (line.ends_with('}')) debugs = false;
  }
  return digest.hex();
}

std::string file_digest(const std::filesystem::path& file) {
  return of_file(file, [&] {
    const std::string bytes = content_of(file);
    return file.extension() == ".ptx" ? ptx_digest(bytes) : sha256(bytes);
  });
}

}  // namespace reprolab::profiling
