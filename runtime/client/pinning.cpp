#include "runtime/client/pinning.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/client/held_batches.h"

namespace batchflow::client {
namespace {

// What is called of CUDA's driver: cuda.h need not be there to build this.
struct Driver {
  using Context = void*;
  int (*device_get)(int*, int) = nullptr;
  int (*context_retain)(Context*, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_push)(Context) = nullptr;
  int (*context_pop)(Context*) = nullptr;
  int (*pin)(void*, std::size_t, unsigned) = nullptr;
  int (*unpin)(void*) = nullptr;
  int (*error_text)(int, const char**) = nullptr;

  static constexpr unsigned kForAllContexts = 1, kReadOnly = 8;

  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    load(library, "cuDeviceGet", device_get);
    load(library, "cuDevicePrimaryCtxRetain", context_retain);
    load(library, "cuDevicePrimaryCtxRelease_v2", context_release);
    load(library, "cuCtxPushCurrent_v2", context_push);
    load(library, "cuCtxPopCurrent_v2", context_pop);
    load(library, "cuMemHostRegister_v2", pin);
    load(library, "cuMemHostUnregister", unpin);
    load(library, "cuGetErrorString", error_text);
  }
  bool is_there() const {
    return device_get && context_retain && context_release && context_push && context_pop && pin &&
           unpin && error_text;
  }
  std::string text(const char* call, int status) const {
    const char* words = nullptr;
    if (error_text(status, &words) != 0 || words == nullptr) words = "an unknown error";
    return fmt::format("{}: {}", call, words);
  }
  // Does it in the context that frameworks use. `call` has the status of what failed.
  template <class Do>
  std::string in_context(int device, Do&& what) const {
    int handle = 0;
    Context context = nullptr;
    if (const int status = device_get(&handle, device)) return text("cuDeviceGet", status);
    if (const int status = context_retain(&context, handle))
      return text("cuDevicePrimaryCtxRetain", status);
    std::string problem;
    if (const int status = context_push(context)) {
      problem = text("cuCtxPushCurrent", status);
    } else {
      problem = what();
      context_pop(&context);
    }
    context_release(handle);
    return problem;
  }

 private:
  template <class Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};

}  // namespace

std::string Pinning::pin(std::span<const std::byte> memory, int device) {
  const std::lock_guard lock(mutex_);
  if (pinned_ != nullptr) return "";
  const Driver driver;
  if (!driver.is_there()) return "this program does not use CUDA, or its driver is too old";
  auto* const at = const_cast<std::byte*>(memory.data());
  const std::string problem = driver.in_context(device, [&] {
    const int status = driver.pin(at, memory.size(), Driver::kForAllContexts | Driver::kReadOnly);
    return status == 0 ? std::string() : driver.text("cuMemHostRegister", status);
  });
  if (!problem.empty()) return problem;
  pinned_ = at;
  device_ = device;
  owner_ = process_generation();
  return "";
}

Pinning::~Pinning() {
  if (pinned_ == nullptr || owner_ != process_generation()) return;
  const Driver driver;
  if (!driver.is_there()) return;
  // At the end of a process the driver may be gone already; then nothing is pinned any more.
  driver.in_context(device_, [&] {
    driver.unpin(const_cast<std::byte*>(pinned_));
    return std::string();
  });
}

}  // namespace batchflow::client
