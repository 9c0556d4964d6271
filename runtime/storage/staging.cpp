#include "runtime/storage/staging.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::storage {

namespace {

FreePages::Page pages_for(Bytes bytes) {
  constexpr Bytes kMost = Bytes{1} << 40;
  if (bytes == 0 || bytes > kMost) {
    throw std::runtime_error(
        fmt::format("staging memory of {} bytes; write 4096 to {}", bytes, kMost));
  }
  return FreePages::pages_of(bytes);
}

}  // namespace

Staging::Staging(Bytes bytes) : pages_(pages_for(bytes)), free_(pages_) {
  void* memory = MAP_FAILED;
  errno = ENOMEM;
  if (!BF_FAILPOINT("storage.staging.map"))
    memory = ::mmap(nullptr, this->bytes(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(
        fmt::format("no staging memory of {} bytes: {}; write less", bytes, std::strerror(errno)));
  }
  begin_ = static_cast<std::byte*>(memory);
  ::madvise(memory, this->bytes(), MADV_DONTFORK);
}

Staging::~Staging() {
  ::munmap(begin_, bytes());
}

std::byte* Staging::take(Bytes bytes) {
  BF_CHECK(bytes <= this->bytes());
  if (BF_FAILPOINT("storage.staging.exhausted")) return nullptr;
  const Page count = std::max<Page>(1, FreePages::pages_of(bytes));
  const std::lock_guard lock(mutex_);
  const auto first = free_.take(count);
  if (!first) return nullptr;
  taken_.emplace(*first, count);
  return begin_ + *first * FreePages::kPage;
}

void Staging::give_back(std::byte* memory) {
  const auto at = static_cast<Bytes>(memory - begin_);
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(at / FreePages::kPage);
  BF_CHECK_MSG(memory >= begin_ && at % FreePages::kPage == 0 && taken != taken_.end(),
               "this staging memory was not taken");
  free_.give_back(taken->first, taken->second);
  taken_.erase(taken);
}

}  // namespace batchflow::storage
