// Where there is no CUDA toolkit there are no decoders.
#include "runtime/gpu/decode_worker.h"

namespace batchflow::gpu {

DecodeWorkers open_workers(const JpegDecoders::Options&, std::string& problem) {
  problem = "this was built without CUDA";
  return {};
}

void use_device(int) {}

}  // namespace batchflow::gpu
