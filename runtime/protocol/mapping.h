// Memory files and their mappings, which the service and a job share.
//
// A process that maps a file of another process checks that it is as large as it must be, and can
// never become smaller. Otherwise reading it could end the process at any time.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::protocol {

class Mapping {
 public:
  Mapping() = default;
  // Empty, with the reason in `problem`, where the file cannot be mapped. REQUIRES: bytes > 0
  static Mapping map_file(const Descriptor& file, Bytes bytes, bool writable, std::string& problem);
  // The same for a memory file of another process, which must be sealed.
  static Mapping map_sealed(const Descriptor& file, Bytes bytes, bool writable,
                            std::string& problem);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  explicit operator bool() const { return !memory_.empty(); }
  std::span<std::byte> memory() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

// A new memory file of zeros. /proc shows it by `name`.
Descriptor make_memory_file(const char* name, Bytes bytes, std::string& problem);
// The file keeps its size from now on. `read_only`: it can no longer be mapped writable; mappings
// that were made before stay writable.
bool seal(const Descriptor& file, bool read_only, std::string& problem);

}  // namespace batchflow::protocol
