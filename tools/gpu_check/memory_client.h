// The process that plays the job where memory of a GPU is shared. gpu_check starts itself as such:
// a process that uses CUDA cannot fork.
#pragma once

#include <string_view>

namespace batchflow::gpu_check {

inline constexpr const char* kClientArgument = "--client";

// `role` is one of those below; `address` names the socket of the checking process, an abstract
// one. Returns the exit status.
int run_client(std::string_view role, std::string_view address);

inline constexpr std::string_view kReads = "reads";
inline constexpr std::string_view kWrites = "writes";  // to memory mapped read-only
inline constexpr std::string_view kWritesByDriver = "writes-by-driver";  // by a copy, not a kernel
inline constexpr std::string_view kMapsWritable = "maps-writable";
inline constexpr std::string_view kCrashes = "crashes";  // while its GPU still reads

}  // namespace batchflow::gpu_check
