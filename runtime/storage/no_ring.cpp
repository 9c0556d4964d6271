// In the place of the ring where liburing is missing.
#include "runtime/storage/reader.h"

namespace batchflow {

Started start_ring(const ReadEngineOptions&, std::shared_ptr<Staging>, std::shared_ptr<Delivery>) {
  return {.reader = nullptr, .description = "built without liburing"};
}

}  // namespace batchflow
