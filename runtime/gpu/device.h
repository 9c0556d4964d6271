// A GPU as the service and jobs use it: pinned host memory, streams of copies, memory that other
// processes map, and fences.
//
// There are two implementations. That of CUDA is in cuda_device.cpp. That of the host
// (runtime/gpu/host_device.h) does the same in plain memory, so that all that uses this interface
// is tested without a GPU. A program may call everything from any thread, but for a CopyLane, which
// belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::gpu {

// lost: nothing on the device can be used again by this process.
enum class Trouble : std::uint8_t { refused, out_of_memory, lost };

class GpuError : public std::runtime_error {
 public:
  GpuError(Trouble trouble, const std::string& what)
      : std::runtime_error(what), trouble_(trouble) {}
  Trouble trouble() const { return trouble_; }

 private:
  Trouble trouble_;
};

struct DeviceFacts {
  int index = 0;
  std::string name;
  Bytes memory_bytes = 0;
  int copy_engines = 0;
  std::string link;                 // as "PCIe 32.0 GT/s x16"; empty: not known
  bool maps_memory = false;         // memory of cuMemCreate
  bool shares_descriptors = false;  // such memory goes to other processes as a file descriptor

  std::string sentence() const;
};

// What is found when a program starts. Never throws; a machine without a GPU, a driver or a toolkit
// is a finding like any other.
struct Detection {
  std::vector<DeviceFacts> gpus;
  std::string problem;  // why there are none

  std::string sentence() const;
};
Detection detect();

struct Piece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  Bytes bytes = 0;
};

enum class Direction : std::uint8_t { to_device, from_device };

// A stream of its own for copies. What begins on one lane ends in that order.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  // Begins to copy all pieces, in any order. Throws GpuError when nothing of them is under way.
  virtual void begin(std::span<const Piece> pieces) = 0;
  // Whether the oldest begin() that was not reported yet is over, as confirmed by the device.
  // Throws GpuError when the device is lost. REQUIRES: there is one
  virtual bool oldest_is_over() = 0;
};

// Memory of the device, mapped in this process.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* address() const = 0;
  virtual Bytes bytes() const = 0;
  // Whether this process cannot write to it. Of imported memory it may be false where the driver
  // refuses such mappings.
  virtual bool is_read_only() const = 0;
  // For another process, which imports it. A process that has it can map the memory writable, too.
  // So it must go only to processes of the same user. Throws GpuError.
  virtual protocol::Descriptor export_descriptor() const = 0;
};

// A point in what this process has given to the device.
class Fence {
 public:
  virtual ~Fence() = default;
  // Whether the device has done everything before it. Throws GpuError when it is lost.
  virtual bool is_passed() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  // The kind of its memory, as DLPack numbers it: 1 for the host, 2 for CUDA.
  virtual int dlpack_kind() const = 0;

  // Host memory from which the device copies at full rate. All these throw GpuError.
  virtual std::shared_ptr<std::byte> make_pinned(Bytes bytes) = 0;
  // Pins memory that is there already, until the result is gone.
  virtual std::shared_ptr<void> pin(std::span<std::byte> memory) = 0;
  virtual std::unique_ptr<CopyLane> make_lane(Direction direction) = 0;

  virtual std::unique_ptr<DeviceMemory> make_memory(Bytes bytes) = 0;
  // Memory that another process has exported. It is mapped read-only; where the driver refuses that
  // it is mapped writable, and is_read_only() says so.
  virtual std::unique_ptr<DeviceMemory> import_memory(protocol::Descriptor descriptor,
                                                      Bytes bytes) = 0;

  // A fence behind all that this process has given to the device so far, on any stream. Where the
  // driver has none of that kind, behind what is on `streams` (cudaStream_t) and on the default
  // stream. Throws GpuError while one of them captures a graph.
  virtual std::unique_ptr<Fence> make_fence(std::span<void* const> streams) = 0;
  // Work that is given to `stream` from now on begins after the fence, which may be dropped.
  virtual void order_after(void* stream, const Fence& fence) = 0;
};

// Throws GpuError. REQUIRES: detect() has found it
std::unique_ptr<Device> open_device(int index);

}  // namespace batchflow::gpu
