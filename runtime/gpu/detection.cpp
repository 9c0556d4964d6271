#include <fmt/format.h>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

std::string DeviceFacts::sentence() const {
  const double gib = static_cast<double>(memory_bytes) / (1 << 30);
  return fmt::format("GPU {}: {}, {:.0f} GiB, {}, {} copy engines, {}", index, name, gib,
                     link.empty() ? "unknown link" : link, copy_engines,
                     !maps_memory          ? "its driver does not map memory, so it is not shared"
                     : !shares_descriptors ? "its memory cannot be shared by file descriptors"
                                           : "its memory is shared by file descriptors");
}

std::string Detection::sentence() const {
  if (gpus.empty()) return fmt::format("no GPU is used: {}", problem);
  std::string all;
  for (const DeviceFacts& gpu : gpus) all += (all.empty() ? "" : "; ") + gpu.sentence();
  return all;
}

}  // namespace batchflow::gpu
