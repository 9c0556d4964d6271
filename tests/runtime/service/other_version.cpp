// In place of runtime/service/service_version.cpp, in programs that are nodes of other versions
// (tests/CMakeLists.txt).
#include "runtime/service/service_version.h"

namespace batchflow::service {

const std::string_view kServiceVersion = BATCHFLOW_VERSION;
const std::uint32_t kNodeProtocol = BATCHFLOW_NODE_PROTOCOL;

}  // namespace batchflow::service
