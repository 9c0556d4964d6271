// What this program offers to plugins: its version of the C interface, the sizes of its structs,
// and what plugins may call.
#pragma once

#include "policies/plugin/batchflow_policy.h"

namespace batchflow::plugin {

const bf_policy_host& policy_host();

}  // namespace batchflow::plugin
