#include "runtime/gpu/host_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::gpu {
namespace {

using State = std::shared_ptr<HostDevice::State>;

[[noreturn]] void refuse(const char* call) {
  throw GpuError(Trouble::refused, fmt::format("{}: {}", call, std::strerror(errno)));
}

class HostLane final : public CopyLane {
 public:
  explicit HostLane(State state) : state_(std::move(state)) {}
  void begin(std::span<const Piece> pieces) override {
    state_->check();
    if (BF_FAILPOINT("gpu.copy")) throw GpuError(Trouble::refused, "the copy is refused");
    begun_.emplace_back(pieces.begin(), pieces.end());
  }
  bool oldest_is_over() override {
    BF_CHECK(!begun_.empty());
    state_->check();
    if (state_->held) return false;
    for (const Piece& piece : begun_.front()) std::memcpy(piece.to, piece.from, piece.bytes);
    begun_.pop_front();
    return true;
  }

 private:
  const State state_;
  std::deque<std::vector<Piece>> begun_;
};

// A memory file of a fixed size, which no other process maps writable.
class HostMemory final : public DeviceMemory {
 public:
  HostMemory(State state, protocol::Descriptor file, Bytes bytes, bool is_made_here)
      : state_(std::move(state)),
        file_(std::move(file)),
        bytes_(bytes),
        is_read_only_(!is_made_here) {
    void* mapped = mmap(nullptr, bytes, is_made_here ? PROT_READ | PROT_WRITE : PROT_READ,
                        MAP_SHARED, file_.get(), 0);
    if (mapped == MAP_FAILED) refuse("mmap");
    address_ = static_cast<std::byte*>(mapped);
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    if (is_made_here && fcntl(file_.get(), F_ADD_SEALS, all) != 0) {
      munmap(address_, bytes_);
      refuse("F_ADD_SEALS");
    }
  }
  ~HostMemory() override {
    munmap(address_, bytes_);
    if (!is_read_only_) state_->free_bytes += bytes_;
  }
  std::byte* address() const override { return address_; }
  Bytes bytes() const override { return bytes_; }
  bool is_read_only() const override { return is_read_only_; }
  protocol::Descriptor export_descriptor() const override {
    protocol::Descriptor made(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    if (!made) refuse("fcntl");
    return made;
  }

 private:
  const State state_;
  const protocol::Descriptor file_;
  const Bytes bytes_;
  const bool is_read_only_;
  std::byte* address_ = nullptr;
};

class HostFence final : public Fence {
 public:
  explicit HostFence(State state) : state_(std::move(state)) { state_->check(); }
  bool is_passed() override {
    state_->check();
    return !state_->held;
  }

 private:
  const State state_;
};

}  // namespace

void HostDevice::State::check() const {
  if (lost) throw GpuError(Trouble::lost, "the device is lost");
}

HostDevice::HostDevice(Bytes memory_bytes) : state_(std::make_shared<State>()) {
  state_->free_bytes = memory_bytes;
  facts_.name = "memory of the host";
  facts_.memory_bytes = memory_bytes;
  facts_.copy_engines = 1;
  facts_.link = "no link";
  facts_.maps_memory = facts_.shares_descriptors = true;
}

std::shared_ptr<std::byte> HostDevice::make_pinned(Bytes bytes) {
  state_->check();
  constexpr std::align_val_t kPage{4096};
  return {static_cast<std::byte*>(operator new(bytes, kPage)),
          [](std::byte* gone) { operator delete(gone, kPage); }};
}

std::shared_ptr<void> HostDevice::pin(std::span<std::byte> memory) {
  state_->check();
  return {memory.data(), [](void*) {}};
}

std::unique_ptr<CopyLane> HostDevice::make_lane(Direction) {
  state_->check();
  return std::make_unique<HostLane>(state_);
}

std::unique_ptr<DeviceMemory> HostDevice::make_memory(Bytes bytes) {
  state_->check();
  Bytes left = state_->free_bytes;
  while (left >= bytes && !state_->free_bytes.compare_exchange_weak(left, left - bytes)) {
  }
  if (left < bytes) throw GpuError(Trouble::out_of_memory, "the device has no memory left");
  try {
    protocol::Descriptor file(memfd_create("batchflow-device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) refuse("memfd_create");
    return std::make_unique<HostMemory>(state_, std::move(file), bytes, true);
  } catch (const GpuError&) {
    state_->free_bytes += bytes;
    throw;
  }
}

std::unique_ptr<DeviceMemory> HostDevice::import_memory(protocol::Descriptor descriptor,
                                                        Bytes bytes) {
  state_->check();
  struct stat status {};
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (BF_FAILPOINT("gpu.import") || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      fstat(descriptor.get(), &status) != 0 || static_cast<Bytes>(status.st_size) < bytes)
    throw GpuError(Trouble::refused, "the descriptor is no device memory of that size");
  return std::make_unique<HostMemory>(state_, std::move(descriptor), bytes, false);
}

std::unique_ptr<Fence> HostDevice::make_fence(std::span<void* const>) {
  return std::make_unique<HostFence>(state_);
}

void HostDevice::order_after(void*, const Fence&) {
  state_->check();
}

}  // namespace batchflow::gpu
