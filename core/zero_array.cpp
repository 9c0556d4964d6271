#include "core/zero_array.h"

#include <cstdlib>
#include <cstring>
#include <new>

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

void* allocate(std::size_t& bytes) {
#ifdef BATCHFLOW_ZERO_PAGES
  if (from_pages(bytes)) {
    bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    madvise(data, bytes, MADV_HUGEPAGE);  // a wish: refused or granted, the pages are zero
    return data;
  }
#endif
  void* data = std::calloc(1, bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
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
  if (data_ != nullptr) release(data_, bytes_);
}

void ZeroedMemory::grow(std::size_t bytes) {
  if (bytes <= bytes_) return;
#ifdef BATCHFLOW_ZERO_PAGES
  if (from_pages(bytes_)) {
    const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* data = mremap(data_, bytes_, rounded, MREMAP_MAYMOVE);  // moves page tables, not bytes
    if (data == MAP_FAILED) throw std::bad_alloc();
    madvise(data, rounded, MADV_HUGEPAGE);
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
