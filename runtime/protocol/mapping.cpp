#include "runtime/protocol/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::protocol {
namespace {

std::string system_problem(std::string_view what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

}  // namespace

Mapping Mapping::map_file(const Descriptor& file, Bytes bytes, bool writable,
                          std::string& problem) {
  Mapping mapping;
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* memory = MAP_FAILED;
  errno = ENOMEM;
  if (!BF_FAILPOINT("protocol.map"))
    memory = mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    problem = system_problem(fmt::format("{} bytes of shared memory cannot be mapped", bytes));
  } else {
    mapping.memory_ = {static_cast<std::byte*>(memory), bytes};
  }
  return mapping;
}

Mapping Mapping::map_sealed(const Descriptor& file, Bytes bytes, bool writable,
                            std::string& problem) {
  struct stat status {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file.get(), &status) != 0) {
    problem = "a descriptor is not of a sealed memory file";
    return {};
  }
  if (static_cast<Bytes>(status.st_size) < bytes) {
    problem = fmt::format("a memory file has {} bytes, and {} are needed", status.st_size, bytes);
    return {};
  }
  return map_file(file, bytes, writable, problem);
}

Mapping::Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

Mapping::~Mapping() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

Descriptor make_memory_file(const char* name, Bytes bytes, std::string& problem) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (BF_FAILPOINT("protocol.memory_file")) {
    file.reset();
    errno = EMFILE;
  }
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    problem = system_problem(fmt::format("no memory file of {} bytes", bytes));
    file.reset();
  }
  return file;
}

bool seal(const Descriptor& file, bool read_only, std::string& problem) {
  const int seals =
      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (read_only ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(file.get(), F_ADD_SEALS, seals) == 0) return true;
  problem = system_problem("a memory file cannot be sealed (Linux 5.1 or newer is needed)");
  return false;
}

}  // namespace batchflow::protocol
