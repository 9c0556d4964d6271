// Memory of a GPU in two processes.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/gpu/copies.h"
#include "tools/gpu_check/report.h"

namespace batchflow::gpu_check {

void fill_pattern(std::span<std::byte> bytes);
bool is_pattern(std::span<const std::byte> bytes);

void check_sharing(Report& report, const Options& options, gpu::Device& device,
                   gpu::Copies& to_device, gpu::Copies& from_device);

}  // namespace batchflow::gpu_check
