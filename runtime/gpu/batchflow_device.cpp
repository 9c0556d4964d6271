#include "runtime/gpu/batchflow_device.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "runtime/gpu/held_slots.h"
#include "runtime/gpu/host_device.h"
#include "runtime/gpu/release_queue.h"

using namespace batchflow;

struct bf_device {
  std::unique_ptr<gpu::Device> device;
  std::unique_ptr<gpu::ReleaseQueue> releases;
};

struct bf_device_memory {
  bf_device* owner;
  std::shared_ptr<const gpu::DeviceMemory> memory;
};

struct bf_device_fence {
  bf_device* owner;
  std::unique_ptr<gpu::Fence> fence;
};

namespace {

thread_local std::string last_error;
thread_local std::string found;

// They are never destroyed: tensors may end after the destructors of this library have run, and
// CUDA is gone by then.
struct Everything {
  std::mutex mutex;
  std::map<int, std::unique_ptr<bf_device>> devices;
  gpu::HeldSlots held;
};
Everything& everything() {
  static Everything* all = new Everything;
  return *all;
}

bf_device_status status_of(gpu::Trouble trouble) {
  switch (trouble) {
    case gpu::Trouble::refused:
      return BF_DEVICE_REFUSED;
    case gpu::Trouble::out_of_memory:
      return BF_DEVICE_NO_MEMORY;
    case gpu::Trouble::lost:
      return BF_DEVICE_LOST;
  }
  return BF_DEVICE_REFUSED;
}

bf_device_status wrong(const char* what) {
  last_error = what;
  return BF_DEVICE_BAD_ARGUMENT;
}

template <class Work>
bf_device_status attempt(Work work) noexcept {
  try {
    return work();
  } catch (const gpu::GpuError& error) {
    last_error = error.what();
    return status_of(error.trouble());
  } catch (const std::bad_alloc&) {
    last_error = "no memory";
    return BF_DEVICE_NO_MEMORY;
  } catch (const std::exception& error) {
    last_error = error.what();
    return BF_DEVICE_REFUSED;
  }
}

bool fits(const bf_device_memory* memory, std::uint64_t offset, std::uint64_t bytes) {
  return memory != nullptr && offset <= memory->memory->bytes() &&
         bytes <= memory->memory->bytes() - offset;
}

void copy(gpu::Device& device, gpu::Direction direction, const gpu::Piece& piece) {
  if (piece.bytes == 0) return;
  const auto lane = device.make_lane(direction);
  lane->begin({&piece, 1});
  while (!lane->oldest_is_over()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

extern "C" {

uint32_t bf_device_abi_version(void) {
  return BF_DEVICE_ABI_VERSION;
}

const char* bf_device_last_error(void) {
  return last_error.c_str();
}

const char* bf_device_found(void) {
  found = gpu::detect().sentence();
  return found.c_str();
}

bf_device_status bf_device_open(int index, bf_device** device) {
  return attempt([&] {
    if (device == nullptr || index < -1) return wrong("there is no such device");
    Everything& all = everything();
    const std::lock_guard lock(all.mutex);
    std::unique_ptr<bf_device>& opened = all.devices[index];
    if (!opened) {
      auto made = std::make_unique<bf_device>();
      if (index == -1)
        made->device = std::make_unique<gpu::HostDevice>();
      else
        made->device = gpu::open_device(index);
      made->releases = std::make_unique<gpu::ReleaseQueue>(*made->device);
      opened = std::move(made);
    }
    *device = opened.get();
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_map(bf_device* device, int descriptor, uint64_t bytes,
                               bf_device_memory** memory) {
  protocol::Descriptor taken(descriptor);
  return attempt([&] {
    if (device == nullptr || memory == nullptr || bytes == 0)
      return wrong("nothing is to be mapped");
    *memory = new bf_device_memory{device, device->device->import_memory(std::move(taken), bytes)};
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_make(bf_device* device, uint64_t bytes, bf_device_memory** memory) {
  return attempt([&] {
    if (device == nullptr || memory == nullptr || bytes == 0) return wrong("nothing is to be made");
    *memory = new bf_device_memory{device, device->device->make_memory(bytes)};
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_export(bf_device_memory* memory, int* descriptor) {
  return attempt([&] {
    if (memory == nullptr || descriptor == nullptr) return wrong("there is no memory");
    const protocol::Descriptor exported = memory->memory->export_descriptor();
    *descriptor = fcntl(exported.get(), F_DUPFD_CLOEXEC, 0);
    if (*descriptor < 0) throw gpu::GpuError(gpu::Trouble::refused, "too many open files");
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_memory_get(bf_device_memory* memory, bf_device_memory_info* info) {
  if (memory == nullptr || info == nullptr || info->struct_size < sizeof *info)
    return wrong("there is no memory, or the struct is too small");
  info->address = memory->memory->address();
  info->bytes = memory->memory->bytes();
  info->is_read_only = memory->memory->is_read_only();
  info->dlpack_kind = memory->owner->device->dlpack_kind();
  info->dlpack_index = memory->owner->device->facts().index;
  return BF_DEVICE_OK;
}

bf_device_status bf_device_write(bf_device_memory* memory, uint64_t offset, const void* from,
                                 uint64_t bytes) {
  return attempt([&] {
    if (!fits(memory, offset, bytes) || from == nullptr) return wrong("outside of the memory");
    copy(*memory->owner->device, gpu::Direction::to_device,
         {memory->memory->address() + offset, static_cast<const std::byte*>(from), bytes});
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_read(bf_device_memory* memory, uint64_t offset, void* to,
                                uint64_t bytes) {
  return attempt([&] {
    if (!fits(memory, offset, bytes) || to == nullptr) return wrong("outside of the memory");
    copy(*memory->owner->device, gpu::Direction::from_device,
         {static_cast<std::byte*>(to), memory->memory->address() + offset, bytes});
    return BF_DEVICE_OK;
  });
}

void bf_device_unmap(bf_device_memory* memory) {
  delete memory;
}

bf_device_status bf_device_hold(bf_device_memory* memory, bf_device_released released,
                                void* context, uint64_t slot, uint64_t* handle) {
  return attempt([&] {
    if (memory == nullptr || handle == nullptr) return wrong("there is no memory");
    *handle =
        everything().held.hold(memory->memory, *memory->owner->releases, [released, context, slot] {
          if (released != nullptr) released(context, slot);
        });
    return BF_DEVICE_OK;
  });
}

void bf_device_note_stream(uint64_t handle, void* stream) {
  (void)attempt([&] { return everything().held.note_stream(handle, stream), BF_DEVICE_OK; });
}

void bf_device_release(void*, uint64_t handle) {
  (void)attempt([&] { return everything().held.release(handle), BF_DEVICE_OK; });
}

uint64_t bf_device_held_count(void) {
  return everything().held.count();
}

uint64_t bf_device_waiting_count(void) {
  Everything& all = everything();
  const std::lock_guard lock(all.mutex);
  std::uint64_t sum = 0;
  for (const auto& [index, device] : all.devices)
    if (device) sum += device->releases->waiting();
  return sum;
}

bf_device_status bf_device_fence_make(bf_device* device, void* stream, bf_device_fence** fence) {
  return attempt([&] {
    if (device == nullptr || fence == nullptr) return wrong("there is no device");
    *fence = new bf_device_fence{device, device->device->make_fence({&stream, 1})};
    return BF_DEVICE_OK;
  });
}

bf_device_status bf_device_order_after(void* stream, const bf_device_fence* fence) {
  return attempt([&] {
    if (fence == nullptr) return wrong("there is no fence");
    fence->owner->device->order_after(stream, *fence->fence);
    return BF_DEVICE_OK;
  });
}

void bf_device_fence_drop(bf_device_fence* fence) {
  delete fence;
}

}  // extern "C"
