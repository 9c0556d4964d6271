#include "runtime/storage/staging.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "core/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow {

Staging::Staging(Bytes bytes) {
  constexpr Bytes kMost = Bytes{1} << 40;
  if (bytes == 0 || bytes > kMost) {
    throw std::runtime_error(
        fmt::format("staging memory of {} bytes; write 4096 to {}", bytes, kMost));
  }
  pages_ = static_cast<Page>((bytes + kPage - 1) / kPage);
  void* memory = ::mmap(nullptr, this->bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || BF_FAILPOINT("storage.staging.map")) {
    throw std::runtime_error(
        fmt::format("no staging memory of {} bytes: {}; write less", bytes, std::strerror(errno)));
  }
  begin_ = static_cast<std::byte*>(memory);
  ::madvise(memory, this->bytes(), MADV_HUGEPAGE);  // fewer pages to register; not needed
  ::madvise(memory, this->bytes(), MADV_DONTFORK);
  add_free(0, pages_);
}

Staging::~Staging() {
  ::munmap(begin_, bytes());
}

std::byte* Staging::take(Bytes bytes) {
  BF_CHECK(bytes <= this->bytes());
  if (BF_FAILPOINT("storage.staging.exhausted")) return nullptr;
  const Page count = std::max<Page>(1, static_cast<Page>((bytes + kPage - 1) / kPage));
  const std::lock_guard lock(mutex_);
  const auto fit = free_sizes_.lower_bound({count, 0});
  if (fit == free_sizes_.end()) return nullptr;
  const auto [size, first] = *fit;
  remove_free(first, size);
  if (size > count) add_free(first + count, size - count);
  taken_.emplace(first, count);
  return begin_ + first * kPage;
}

void Staging::give_back(std::byte* memory) {
  const auto at = static_cast<Bytes>(memory - begin_);
  const std::lock_guard lock(mutex_);
  const auto taken = taken_.find(static_cast<Page>(at / kPage));
  BF_CHECK_MSG(memory >= begin_ && at % kPage == 0 && taken != taken_.end(),
               "this staging memory is nobody's");
  auto [first, count] = std::pair<Page, Page>(*taken);
  taken_.erase(taken);
  const auto after = free_.lower_bound(first);
  if (after != free_.begin()) {
    const auto [before, size] = *std::prev(after);
    if (before + size == first) {
      remove_free(before, size);
      first = before;
      count += size;
    }
  }
  if (const auto next = free_.find(first + count); next != free_.end()) {
    const Page size = next->second;
    remove_free(first + count, size);
    count += size;
  }
  add_free(first, count);
}

void Staging::add_free(Page first, Page count) {
  free_.emplace(first, count);
  free_sizes_.emplace(count, first);
}

void Staging::remove_free(Page first, Page count) {
  free_.erase(first);
  free_sizes_.erase({count, first});
}

}  // namespace batchflow
