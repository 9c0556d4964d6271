#include "runtime/protocol/ring_files.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::protocol {
namespace {

bool is_ring_size(Bytes bytes) {
  return std::has_single_bit(bytes) && bytes >= kRingLeast && bytes <= kRingMost;
}

RingMemory ring_of(const Mapping& written_by_writer, const Mapping& written_by_reader) {
  // A file begins as zeros, and so do atomic numbers.
  auto* writer = std::launder(reinterpret_cast<RingFileHead*>(written_by_writer.memory().data()));
  auto* reader = std::launder(reinterpret_cast<RingFileHead*>(written_by_reader.memory().data()));
  return {&writer->writer, &reader->reader, written_by_writer.memory().subspan(kRingRecordsAt)};
}

}  // namespace

RingMemory Rings::to_job() const {
  return ring_of(service_file, job_file);
}

RingMemory Rings::from_job() const {
  return ring_of(job_file, service_file);
}

std::atomic<std::uint32_t>& Rings::revoked() const {
  return std::launder(reinterpret_cast<RingFileHead*>(service_file.memory().data()))->revoked;
}

RingFiles make_rings(Bytes ring_bytes, std::string& problem) {
  BF_CHECK(is_ring_size(ring_bytes));
  const Bytes bytes = kRingRecordsAt + ring_bytes;
  RingFiles files;
  files.service_file = make_memory_file("batchflow-down", bytes, problem);
  if (!files.service_file) return {};
  files.job_file = make_memory_file("batchflow-up", bytes, problem);
  if (!files.job_file) return {};
  // It is mapped before it is sealed: afterwards the service could not write to it either.
  files.rings.service_file = Mapping::map_file(files.service_file, bytes, true, problem);
  files.rings.job_file = Mapping::map_file(files.job_file, bytes, false, problem);
  if (!files.rings || !seal(files.service_file, true, problem) ||
      !seal(files.job_file, false, problem)) {
    return {};
  }
  files.doorbell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (BF_FAILPOINT("protocol.doorbell")) {
    files.doorbell.reset();
    errno = EMFILE;
  }
  if (!files.doorbell) problem = fmt::format("no eventfd: {}", std::strerror(errno));
  return files;
}

Rings map_rings(const Descriptor& service_file, const Descriptor& job_file, Bytes ring_bytes,
                std::string& problem) {
  if (!is_ring_size(ring_bytes)) {
    problem = fmt::format("rings cannot have {} bytes", ring_bytes);
    return {};
  }
  const Bytes bytes = kRingRecordsAt + ring_bytes;
  Rings rings;
  rings.service_file = Mapping::map_sealed(service_file, bytes, false, problem);
  if (rings.service_file) rings.job_file = Mapping::map_sealed(job_file, bytes, true, problem);
  return rings;
}

void ring_doorbell(const Descriptor& doorbell) {
  const std::uint64_t once = 1;
  // It fails only where it was written to 2^64 times and not read.
  [[maybe_unused]] const auto written = ::write(doorbell.get(), &once, sizeof once);
}

void silence_doorbell(const Descriptor& doorbell) {
  std::uint64_t times = 0;
  iovec part{&times, sizeof times};
  [[maybe_unused]] const auto read = preadv2(doorbell.get(), &part, 1, -1, RWF_NOWAIT);
}

}  // namespace batchflow::protocol
