#include "core/base/zeroed_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#include <sys/mman.h>
#define BATCHFLOW_ZERO_PAGES 1
#endif

namespace batchflow {
namespace {

#ifdef BATCHFLOW_ZERO_PAGES
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr bool from_pages(std::size_t bytes) {
  return bytes >= kHugePage;
}
#endif

thread_local UnhurriedMemory* unhurried = nullptr;

#ifdef BATCHFLOW_ZERO_PAGES
void ask_for_huge_pages(void* data, std::size_t bytes) {
  if (!unhurried) madvise(data, bytes, MADV_HUGEPAGE);  // a wish: the pages are zero either way
}
#endif

// Acts as `new` does when there is no memory: the program's handler may get some, or throw.
template <class Attempt>
void* until_made(Attempt attempt) {
  for (;;) {
    if (void* const data = attempt()) return data;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}

#ifdef BATCHFLOW_ZERO_PAGES
void* null_if_failed(void* mapped) {
  return mapped == MAP_FAILED ? nullptr : mapped;
}
#endif

void* allocate(std::size_t& bytes) {
#ifdef BATCHFLOW_ZERO_PAGES
  if (from_pages(bytes)) {
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* data = until_made([bytes] {
      return null_if_failed(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    });
    ask_for_huge_pages(data, bytes);
    return data;
  }
#endif
  return until_made([bytes] { return std::calloc(1, bytes); });
}

void release(void* data, std::size_t bytes) {
#ifdef BATCHFLOW_ZERO_PAGES
  if (from_pages(bytes)) {
    munmap(data, bytes);
    return;
  }
#else
  static_cast<void>(bytes);
#endif
  std::free(data);
}

}  // namespace

ZeroedMemory::~ZeroedMemory() {
  if (data_ == nullptr) return;
#ifdef BATCHFLOW_ZERO_PAGES
  if (unhurried && from_pages(bytes_)) {
    unhurried->freed_.push_back({data_, bytes_});
    return;
  }
#endif
  release(data_, bytes_);
}

UnhurriedMemory::Scope::Scope(UnhurriedMemory& memory)
    : before_(std::exchange(unhurried, &memory)) {}
UnhurriedMemory::Scope::~Scope() {
  unhurried = before_;
}

UnhurriedMemory::~UnhurriedMemory() {
  for (const Pages& pages : freed_) release(pages.data, pages.bytes);
}

bool UnhurriedMemory::give_back(std::size_t bytes) {
#ifdef BATCHFLOW_ZERO_PAGES
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  if (!freed_.empty()) {
    Pages& last = freed_.back();
    const std::size_t slice = bytes < last.bytes ? bytes : last.bytes;
    last.bytes -= slice;
    munmap(static_cast<char*>(last.data) + last.bytes, slice);
    if (last.bytes == 0) freed_.pop_back();
  }
#else
  static_cast<void>(bytes);
#endif
  return freed_.empty();
}

void ZeroedMemory::grow(std::size_t bytes) {
  if (bytes <= bytes_) return;
#ifdef BATCHFLOW_ZERO_PAGES
  if (from_pages(bytes_)) {
    const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* data = until_made([&] {  // moves page tables, not bytes
      return null_if_failed(mremap(data_, bytes_, rounded, MREMAP_MAYMOVE));
    });
    ask_for_huge_pages(data, rounded);
    data_ = data;
    bytes_ = rounded;
    return;
  }
#endif
  if (bytes < 2 * bytes_) bytes = 2 * bytes_;  // many small steps cost no more than one large one
  void* data = allocate(bytes);
  if (data_ != nullptr) {
    std::memcpy(data, data_, bytes_);
    release(data_, bytes_);
  }
  data_ = data;
  bytes_ = bytes;
}

}  // namespace batchflow
