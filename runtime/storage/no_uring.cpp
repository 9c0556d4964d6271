// Replaces the reader by io_uring where liburing is missing.
#include "runtime/storage/reader.h"

namespace batchflow::storage {

Started start_uring(const ReadEngineOptions&, std::shared_ptr<Staging>,
                    std::shared_ptr<ResultQueue>) {
  return {.reader = nullptr, .description = "built without liburing"};
}

}  // namespace batchflow::storage
