#include "runtime/gpu/nvjpeg_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace batchflow::gpu {
namespace {

constexpr const char* kNames[] = {"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"};

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* where = std::getenv("BATCHFLOW_NVJPEG"); where && *where) {
    const std::filesystem::path path(where);
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) return {path};
    for (const char* folder : {"", "lib", "nvidia/cu13/lib"})
      for (const char* name : kNames) paths.push_back(path / folder / name);
    return paths;
  }
  paths.assign(std::begin(kNames), std::end(kNames));
  return paths;
}

struct Loaded {
  NvjpegLibrary library;
  std::string problem;

  Loaded() {
    void* handle = nullptr;
    for (const std::string& path : candidates()) {
      handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle) break;
      // The first error is of the newest library, unless that is only not there.
      if (const char* error = dlerror(); problem.empty() && error) problem = error;
    }
    if (!handle) {
      problem =
          "nvJPEG cannot be loaded (" + problem +
          "); install the Python package nvidia-nvjpeg, and set BATCHFLOW_NVJPEG to its folder";
      return;
    }
    problem.clear();
#define BF_NVJPEG_LOAD(name)                                                              \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, "nvjpeg" #name)); \
  if (!library.name && problem.empty()) problem = "nvJPEG has no function nvjpeg" #name;
    BF_NVJPEG_FUNCTIONS(BF_NVJPEG_LOAD)
#undef BF_NVJPEG_LOAD
    if (!problem.empty()) return;
    for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
      int number = 0;
      (void)library.GetProperty(part, &number);
      library.version += (library.version.empty() ? "" : ".") + std::to_string(number);
    }
  }
};

}  // namespace

const NvjpegLibrary* nvjpeg_library(std::string& problem) {
  static const Loaded loaded;
  problem = loaded.problem;
  return problem.empty() ? &loaded.library : nullptr;
}

const char* text_of(nvjpegStatus_t status) {
  switch (status) {
    case NVJPEG_STATUS_SUCCESS:
      return "done";
    case NVJPEG_STATUS_NOT_INITIALIZED:
      return "nvJPEG is not initialised";
    case NVJPEG_STATUS_INVALID_PARAMETER:
      return "nvJPEG was given a wrong parameter";
    case NVJPEG_STATUS_BAD_JPEG:
      return "nvJPEG finds the data damaged";
    case NVJPEG_STATUS_JPEG_NOT_SUPPORTED:
      return "nvJPEG does not decode its kind";
    case NVJPEG_STATUS_ALLOCATOR_FAILURE:
      return "nvJPEG has no memory";
    case NVJPEG_STATUS_EXECUTION_FAILED:
      return "nvJPEG failed on the GPU";
    case NVJPEG_STATUS_ARCH_MISMATCH:
      return "nvJPEG has no code for this GPU, or it has no such engines";
    case NVJPEG_STATUS_INTERNAL_ERROR:
      return "nvJPEG failed internally";
    case NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED:
      return "nvJPEG lacks this way of decoding";
    case NVJPEG_STATUS_INCOMPLETE_BITSTREAM:
      return "nvJPEG finds the data incomplete";
  }
  return "nvJPEG failed";
}

}  // namespace batchflow::gpu
