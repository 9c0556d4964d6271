// All policies that this build knows, by kind and name.
#pragma once

#include "core/engine/policy_list.h"

namespace batchflow::policies {

const engine::PolicyList& policy_list();

}  // namespace batchflow::policies
