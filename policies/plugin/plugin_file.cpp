#include "policies/plugin/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/config_value.h"
#include "policies/plugin/sha256.h"

namespace batchflow::plugin {
namespace {

constexpr std::size_t kSectionsMost = 1 << 16;

[[noreturn]] void refuse(const std::string& why) {
  throw ConfigError(why);
}

// A struct out of the file. Nothing that the file says is believed before it is looked at.
template <class Struct>
std::optional<Struct> struct_at(std::string_view file, std::uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(Struct)) return std::nullopt;
  Struct result;
  std::memcpy(&result, file.data() + at, sizeof(Struct));
  return result;
}

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
constexpr std::uint16_t kMachine = EM_NONE;
#endif

Elf64_Ehdr header_of(std::string_view file) {
  const auto header = struct_at<Elf64_Ehdr>(file, 0);
  if (!file.starts_with(ELFMAG) || !header) refuse("it is no shared library");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != kMachine) {
    refuse("it is built for another machine; build it for " BF_POLICY_PLATFORM);
  }
  if (header->e_type != ET_DYN) refuse("it is a program or an object file, no shared library");
  return *header;
}

constexpr const char* kCut = "the file is cut off or damaged; build or copy it again";

// The content of the section of that name; nothing if there is none.
std::string_view section(std::string_view file, std::string_view name) {
  const Elf64_Ehdr header = header_of(file);
  if (header.e_shoff == 0 || header.e_shnum == 0 || header.e_shnum > kSectionsMost ||
      header.e_shentsize != sizeof(Elf64_Shdr)) {
    refuse(kCut);
  }
  const auto part = [&](std::uint64_t index) {
    const auto found = struct_at<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr));
    if (!found || header.e_shoff > file.size()) refuse(kCut);
    return *found;
  };
  const auto content = [&](const Elf64_Shdr& section_header) {
    if (section_header.sh_type == SHT_NOBITS) return std::string_view();
    if (section_header.sh_offset > file.size() ||
        file.size() - section_header.sh_offset < section_header.sh_size)
      refuse(kCut);
    return file.substr(section_header.sh_offset, section_header.sh_size);
  };
  if (header.e_shstrndx >= header.e_shnum) refuse(kCut);
  const std::string_view names = content(part(header.e_shstrndx));
  std::string_view found;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr one = part(i);
    const std::string_view all = content(one);  // a file that is cut off is noticed here
    if (one.sh_name >= names.size()) continue;
    const std::string_view called = names.substr(one.sh_name);
    if (called.substr(0, called.find('\0')) == name) found = all;
  }
  return found;
}

template <std::size_t room>
std::string text_of(const char (&from)[room]) {
  const char* const end = std::find(from, from + room, '\0');
  const bool printable = std::all_of(from, end, [](char one) { return one >= ' ' && one <= '~'; });
  if (end == from + room || !printable) refuse("its footer is damaged; build it again");
  return {from, end};
}

std::string system_error(int error) {
  return std::strerror(error);
}

// Closes what it has.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

std::string read_all(const std::filesystem::path& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) refuse(system_error(errno));
  struct stat status;
  if (fstat(file.fd, &status) != 0) refuse(system_error(errno));
  if (!S_ISREG(status.st_mode)) refuse("it is no file");
  if (status.st_size > static_cast<off_t>(kFileBytesMost))
    refuse(fmt::format("it has more than {} MiB; no plugin is that long", kFileBytesMost >> 20));
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = read(file.fd, bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) refuse(system_error(errno));
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

int sealed_copy(const std::string& name, std::string_view bytes) {
  Descriptor copy{memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (copy.fd < 0) refuse(fmt::format("no copy of it can be made: {}", system_error(errno)));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t more = write(copy.fd, bytes.data() + done, bytes.size() - done);
    if (more < 0 && errno != EINTR)
      refuse(fmt::format("no copy of it can be made: {}", system_error(errno)));
    if (more > 0) done += static_cast<std::size_t>(more);
  }
  fcntl(copy.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return std::exchange(copy.fd, -1);
}

}  // namespace

Footer read_footer(std::string_view file) {
  const std::string_view bytes = section(file, BF_POLICY_SECTION);
  const auto footer = struct_at<bf_policy_footer>(bytes, 0);
  if (!footer || std::memcmp(footer->magic, BF_POLICY_MAGIC, sizeof(footer->magic)) != 0) {
    refuse("it is no policy plugin: it has no footer (BATCHFLOW_POLICY_PLUGIN makes one)");
  }
  Footer result;
  result.platform = text_of(footer->platform);
  if (result.platform != BF_POLICY_PLATFORM) {
    refuse(fmt::format("it is built for {}; build it for {}", result.platform, BF_POLICY_PLATFORM));
  }
  result.interface_least = footer->version_least;
  result.interface_most = footer->version;
  if (footer->version_least > BF_POLICY_VERSION || footer->version < BF_POLICY_VERSION_LEAST ||
      footer->version < footer->version_least) {
    refuse(
        fmt::format("it is made for versions {} to {} of the interface, and this program has {} "
                    "to {}; build it with headers of this release",
                    footer->version_least, footer->version, int{BF_POLICY_VERSION_LEAST},
                    int{BF_POLICY_VERSION}));
  }
  result.unstable = footer->unstable;
  result.name = text_of(footer->name);
  result.version = text_of(footer->plugin_version);
  if (result.name.empty()) refuse("it has no name; give it one in BATCHFLOW_POLICY_PLUGIN");
  const std::string all = text_of(footer->policies);
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(' ', at), all.size());
    if (end > at) result.policies.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  if (result.policies.empty()) refuse("it brings no policy");
  return result;
}

PluginFile::PluginFile(const std::filesystem::path& path) : path_(path) {
  try {
    const std::string bytes = read_all(path);
    footer_ = read_footer(bytes);
    hash_ = hex(sha256(std::as_bytes(std::span(bytes))));
    copy_ = sealed_copy(path.filename().string().substr(0, 200), bytes);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("plugin {}: {}", path.string(), error.what()));
  }
}

PluginFile::PluginFile(PluginFile&& other) noexcept
    : path_(std::move(other.path_)),
      copy_(std::exchange(other.copy_, -1)),
      footer_(std::move(other.footer_)),
      hash_(std::move(other.hash_)) {}

PluginFile::~PluginFile() {
  if (copy_ >= 0) close(copy_);
}

std::string PluginFile::loadable() const {
  const int for_ever = fcntl(copy_, F_DUPFD_CLOEXEC, 0);
  if (for_ever < 0) refuse(fmt::format("no copy of it can be opened: {}", system_error(errno)));
  return fmt::format("/proc/self/fd/{}", for_ever);
}

int PluginFile::duplicate(int least) const {
  return fcntl(copy_, F_DUPFD_CLOEXEC, least);
}

}  // namespace batchflow::plugin
