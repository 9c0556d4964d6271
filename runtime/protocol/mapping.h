// Memory files and their mappings: what the service and a job share.
//
// Whoever maps a file of somebody else's checks that it is as large as it must be and can never be
// made smaller: otherwise reading it could end the process at any time.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow {

class Mapping {
 public:
  Mapping() = default;
  // Empty, with the reason in `problem`, when it cannot be had. REQUIRES: bytes > 0
  static Mapping of(const Descriptor& file, Bytes bytes, bool writable, std::string& problem);
  // The same for a memory file of somebody else's.
  static Mapping of_sealed(const Descriptor& file, Bytes bytes, bool writable,
                           std::string& problem);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  explicit operator bool() const { return !memory_.empty(); }
  std::span<std::byte> memory() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

// A new memory file of zeros. `name` is what /proc shows.
Descriptor make_memory_file(const char* name, Bytes bytes, std::string& problem);
// From now on the file keeps its size; `read_only`: nobody can map it writable any more, who has
// not done so before.
bool seal(const Descriptor& file, bool read_only, std::string& problem);

}  // namespace batchflow
