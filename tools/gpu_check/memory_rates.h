// How fast and how late bytes move between the host and a GPU.
#pragma once

#include "runtime/gpu/device.h"
#include "tools/gpu_check/report.h"

namespace batchflow::gpu_check {

void measure_copies(Report& report, const Options& options, gpu::Device& device);

}  // namespace batchflow::gpu_check
