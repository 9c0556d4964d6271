// A GPU through CUDA.
#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <utility>

#include "core/base/check.h"
#include "runtime/gpu/device.h"
#include "runtime/gpu/driver.h"

namespace batchflow::gpu {
namespace {

// The calling thread uses a device for a while. It may be a thread of a training script, which uses
// another device, or is capturing a graph: neither is to notice.
class Using {
 public:
  explicit Using(int index) : index_(index) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = index;
    BF_GPU(cudaSetDevice, index);
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  ~Using() {
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    if (before_ != index_) (void)cudaSetDevice(before_);
  }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;

 private:
  int index_;
  int before_ = 0;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class Event {
 public:
  Event() { BF_GPU(cudaEventCreateWithFlags, &event_, cudaEventDisableTiming); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }
  bool is_over() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// ------------------------------------------------------------------------------------ copies --

class CudaLane final : public CopyLane {
 public:
  CudaLane(int index, Direction direction)
      : index_(index),
        kind_(direction == Direction::to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost) {
    Using device(index_);
    BF_GPU(cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking);
  }
  ~CudaLane() override {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }

  void begin(std::span<const Piece> pieces) override {
    Using device(index_);
    Event event = take_event();
    try {
      if (pieces.size() == 1 || !begin_batch(pieces))
        for (const Piece& piece : pieces)
          BF_GPU(cudaMemcpyAsync, piece.to, piece.from, piece.bytes, kind_, stream_);
      BF_GPU(cudaEventRecord, event.get(), stream_);
    } catch (const GpuError&) {
      (void)cudaStreamSynchronize(stream_);  // what has begun ends before the memory is used again
      throw;
    }
    begun_.push_back(std::move(event));
  }

  bool oldest_is_over() override {
    BF_CHECK(!begun_.empty());
    Using device(index_);
    if (!begun_.front().is_over()) return false;
    events_.push_back(std::move(begun_.front()));
    begun_.pop_front();
    return true;
  }

 private:
  Event take_event() {
    if (events_.empty()) return {};
    Event event = std::move(events_.back());
    events_.pop_back();
    return event;
  }

  // False: the driver copies no batches.
  bool begin_batch(std::span<const Piece> pieces) {
    if (!has_batches_) return false;
    to_.clear(), from_.clear(), sizes_.clear();
    for (const Piece& piece : pieces) {
      to_.push_back(piece.to);
      from_.push_back(piece.from);
      sizes_.push_back(piece.bytes);
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
#if CUDART_VERSION >= 13000
    const cudaError_t status = cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(),
                                                    sizes_.size(), &attributes, &first, 1, stream_);
#else
    std::size_t failed = 0;
    const cudaError_t status =
        cudaMemcpyBatchAsync(to_.data(), const_cast<void**>(from_.data()), sizes_.data(),
                             sizes_.size(), &attributes, &first, 1, &failed, stream_);
#endif
    has_batches_ = status != cudaErrorNotSupported && status != cudaErrorCallRequiresNewerDriver;
    if (has_batches_)
      check(status, "cudaMemcpyBatchAsync");
    else
      (void)cudaGetLastError();
    return has_batches_;
  }

  const int index_;
  const cudaMemcpyKind kind_;
  cudaStream_t stream_ = nullptr;
  bool has_batches_ = true;
  std::deque<Event> begun_;
  std::vector<Event> events_;
  std::vector<void*> to_;
#if CUDART_VERSION >= 13000
  std::vector<const void*> from_;
#else
  std::vector<void*> from_;
#endif
  std::vector<std::size_t> sizes_;
};

// ------------------------------------------------------------------------------------ memory --

CUmemAllocationProp properties(int index) {
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  made.location.id = index;
  return made;
}

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(int index, Bytes bytes) : index_(index), bytes_(bytes) {}
  ~CudaMemory() override {
    if (is_mapped_) (void)driver().unmap(address_, mapped_bytes_);
    if (address_ != 0) (void)driver().free_address(address_, mapped_bytes_);
    if (handle_ != 0) (void)driver().release(handle_);
  }

  void make() {
    const CUmemAllocationProp wanted = round_up();
    check(driver().create(&handle_, mapped_bytes_, &wanted, 0), "cuMemCreate");
    map();
    check(set_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "cuMemSetAccess");
  }

  void import(const protocol::Descriptor& descriptor) {
    (void)round_up();
    const auto os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
    check(driver().import_handle(&handle_, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          "cuMemImportFromShareableHandle");
    map();
    is_read_only_ = set_access(CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS;
    if (!is_read_only_) check(set_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "cuMemSetAccess");
  }

  std::byte* address() const override { return reinterpret_cast<std::byte*>(address_); }
  Bytes bytes() const override { return bytes_; }
  bool is_read_only() const override { return is_read_only_; }
  protocol::Descriptor export_descriptor() const override {
    Using device(index_);
    int number = -1;
    check(driver().export_handle(&number, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          "cuMemExportToShareableHandle");
    return protocol::Descriptor(number);
  }

 private:
  CUmemAllocationProp round_up() {
    const CUmemAllocationProp wanted = properties(index_);
    std::size_t grain = 0;
    check(driver().granularity(&grain, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    mapped_bytes_ = (bytes_ + grain - 1) / grain * grain;
    return wanted;
  }
  void map() {
    check(driver().reserve(&address_, mapped_bytes_, 0, 0, 0), "cuMemAddressReserve");
    check(driver().map(address_, mapped_bytes_, 0, handle_, 0), "cuMemMap");
    is_mapped_ = true;
  }
  CUresult set_access(CUmemAccess_flags flags) const {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = index_;
    access.flags = flags;
    return driver().set_access(address_, mapped_bytes_, &access, 1);
  }

  const int index_;
  const Bytes bytes_;
  Bytes mapped_bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  bool is_mapped_ = false;
  bool is_read_only_ = false;
};

// ------------------------------------------------------------------------------------ fences --

class CudaFence final : public Fence {
 public:
  CudaFence(int index, std::span<void* const> streams) : index_(index) {
    Using device(index_);
    bool captures = is_capturing(cudaStreamLegacy);
    for (void* stream : streams) captures |= is_capturing(static_cast<cudaStream_t>(stream));
    if (captures) throw GpuError(Trouble::refused, "a stream is being captured as a graph");
    events_.emplace_back();
    if (record_all(events_.front())) return;
    BF_GPU(cudaEventRecord, events_.front().get(), cudaStreamLegacy);
    for (void* stream : streams) {
      events_.emplace_back();
      BF_GPU(cudaEventRecord, events_.back().get(), static_cast<cudaStream_t>(stream));
    }
  }
  bool is_passed() override {
    Using device(index_);
    while (!events_.empty() && events_.back().is_over()) events_.pop_back();
    return events_.empty();
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  // False: the driver cannot do this. If a stream that nothing is known of captures a graph, this
  // spoils the graph; the driver cannot be asked whether one does.
  static bool record_all(const Event& event) {
    CUcontext context = nullptr;
    return driver().record_context != nullptr &&
           driver().current_context(&context) == CUDA_SUCCESS && context != nullptr &&
           driver().record_context(context, event.get()) == CUDA_SUCCESS;
  }

  static bool is_capturing(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) == cudaSuccess)
      return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return true;
  }

  const int index_;
  std::vector<Event> events_;
};

// ------------------------------------------------------------------------------------ device --

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// As the kernel knows it; where it does not, as in some virtual machines, nothing.
std::string link_of(const cudaDeviceProp& found) {
  const std::string folder = fmt::format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0/",
                                         found.pciDomainID, found.pciBusID, found.pciDeviceID);
  std::string speed = first_line(folder + "max_link_speed");
  const std::string width = first_line(folder + "max_link_width");
  if (speed.empty() || width.empty()) return "";
  if (const auto end = speed.find(" PCIe"); end != std::string::npos) speed.resize(end);
  return fmt::format("PCIe {} x{}", speed, width);
}

bool has(int index, CUdevice_attribute attribute) {
  int value = 0;
  return driver().device_attribute != nullptr &&
         driver().device_attribute(&value, attribute, index) == CUDA_SUCCESS && value != 0;
}

DeviceFacts facts_of(int index) {
  cudaDeviceProp found{};
  BF_GPU(cudaGetDeviceProperties, &found, index);
  DeviceFacts facts;
  facts.index = index;
  facts.name = found.name;
  facts.memory_bytes = found.totalGlobalMem;
  facts.copy_engines = found.asyncEngineCount;
  facts.link = link_of(found);
  facts.maps_memory =
      driver().maps_memory() && has(index, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  facts.shares_descriptors =
      facts.maps_memory &&
      has(index, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  return facts;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : facts_(facts_of(index)) {
    Using device(index);
    BF_GPU(cudaFree, nullptr);  // makes the context, or says why there is none
  }

  const DeviceFacts& facts() const override { return facts_; }
  int dlpack_kind() const override { return 2; }

  std::shared_ptr<std::byte> make_pinned(Bytes bytes) override {
    Using device(facts_.index);
    void* memory = nullptr;
    BF_GPU(cudaHostAlloc, &memory, bytes, cudaHostAllocPortable);
    return {static_cast<std::byte*>(memory), [](std::byte* gone) { (void)cudaFreeHost(gone); }};
  }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override {
    Using device(facts_.index);
    BF_GPU(cudaHostRegister, memory.data(), memory.size(), cudaHostRegisterPortable);
    return {memory.data(), [](void* gone) { (void)cudaHostUnregister(gone); }};
  }
  std::unique_ptr<CopyLane> make_lane(Direction direction) override {
    return std::make_unique<CudaLane>(facts_.index, direction);
  }

  std::unique_ptr<DeviceMemory> make_memory(Bytes bytes) override {
    auto made = new_memory(bytes);
    Using device(facts_.index);
    made->make();
    return made;
  }
  std::unique_ptr<DeviceMemory> import_memory(protocol::Descriptor descriptor,
                                              Bytes bytes) override {
    auto made = new_memory(bytes);
    Using device(facts_.index);
    made->import(descriptor);
    return made;
  }

  std::unique_ptr<Fence> make_fence(std::span<void* const> streams) override {
    return std::make_unique<CudaFence>(facts_.index, streams);
  }
  void order_after(void* stream, const Fence& fence) override {
    Using device(facts_.index);
    for (const Event& event : static_cast<const CudaFence&>(fence).events())
      BF_GPU(cudaStreamWaitEvent, static_cast<cudaStream_t>(stream), event.get(), 0);
  }

 private:
  std::unique_ptr<CudaMemory> new_memory(Bytes bytes) const {
    if (!facts_.shares_descriptors)
      throw GpuError(Trouble::refused,
                     fmt::format("GPU {} does not share memory by file descriptors", facts_.index));
    return std::make_unique<CudaMemory>(facts_.index, bytes);
  }

  const DeviceFacts facts_;
};

std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string why_none(cudaError_t status) {
  int of_driver = 0, of_library = 0;
  (void)cudaDriverGetVersion(&of_driver);
  (void)cudaRuntimeGetVersion(&of_library);
  (void)cudaGetLastError();
  if (of_driver == 0) return "there is no NVIDIA driver";
  if (status == cudaErrorInsufficientDriver)
    return fmt::format(
        "the NVIDIA driver knows CUDA {} and this program needs {}; install a newer "
        "driver",
        version(of_driver), version(of_library));
  if (status == cudaErrorNoDevice)
    return "the NVIDIA driver finds none; is CUDA_VISIBLE_DEVICES set, or the container started "
           "without GPUs?";
  return cudaGetErrorString(status);
}

}  // namespace

Detection detect() {
  Detection found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    found.problem = why_none(status == cudaSuccess ? cudaErrorNoDevice : status);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    try {
      found.gpus.push_back(facts_of(i));
    } catch (const GpuError& error) {
      found.problem = fmt::format("GPU {}: {}", i, error.what());
    }
  }
  return found;
}

std::unique_ptr<Device> open_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace batchflow::gpu
