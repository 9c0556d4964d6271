#include "programs/version/version.h"

#include <fmt/format.h>

namespace batchflow::version {

extern const std::string_view kCommit;  // WriteCommit.cmake

std::string version_text(std::string_view program) {
  return kCommit.empty() ? fmt::format("{} {}", program, BATCHFLOW_VERSION)
                         : fmt::format("{} {} (commit {})", program, BATCHFLOW_VERSION, kCommit);
}

}  // namespace batchflow::version
