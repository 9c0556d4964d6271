// Getting pages for memory, huge ones where those are cheaper, as measured. On most machines they
// cost a quarter of what small ones do. On a virtual machine that gives free memory back to its
// host they may cost seven times as much: the host has to find them anew, where small ones are
// found among those that were used before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/base/types.h"

namespace batchflow::storage {

// For one kind of memory: anonymous, or of memory files. Thread-safe.
class HugePages {
 public:
  static constexpr Bytes kBytes = Bytes{2} << 20;

  // Gets pages for all of the memory, so that writing to it ends no process. Where 2 MiB can be
  // one huge page, they may become one. False: the machine has not so much.
  bool populate(std::byte* memory, Bytes bytes);

  // Whether the next 2 MiB should be a huge page: the cheaper kind, and now and then the other.
  bool choose();
  // 2 MiB of this kind took so long.
  void note(bool huge, Duration took);

 private:
  static constexpr std::uint32_t kTrialAfterMost = 1024;
  std::mutex mutex_;
  Duration small_{0}, huge_{0};  // 0: not measured
  std::uint32_t chosen_ = 0, trial_after_ = 16;
};

}  // namespace batchflow::storage
