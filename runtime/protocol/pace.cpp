#include "runtime/protocol/pace.h"

#include <new>

namespace batchflow::protocol {
namespace {

constexpr Bytes kPageBytes = 4096;

}  // namespace

Pace Pace::make(std::string& problem) {
  Pace pace;
  Descriptor file = make_memory_file("batchflow-pace", kPageBytes, problem);
  if (!file) return {};
  // It is mapped before it is sealed: afterwards the service could not write to it either.
  pace.page_ = Mapping::map_file(file, kPageBytes, true, problem);
  if (!pace.page_ || !seal(file, true, problem)) return {};
  pace.file_ = std::move(file);
  return pace;
}

Pace Pace::map_file(const Descriptor& file, std::string& problem) {
  Pace pace;
  pace.page_ = Mapping::map_sealed(file, kPageBytes, false, problem);
  return pace;
}

// A file begins as zeros, and so does an atomic number.
std::atomic<std::uint64_t>& Pace::word() const {
  return *std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(page_.memory().data()));
}

}  // namespace batchflow::protocol
