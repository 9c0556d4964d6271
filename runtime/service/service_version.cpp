#include "runtime/service/service_version.h"

namespace batchflow::service {

const std::string_view kServiceVersion = BATCHFLOW_VERSION;
// Raised with each change that an older node would misunderstand.
const std::uint32_t kNodeProtocol = 5;

}  // namespace batchflow::service
