// All policies that this build knows, by kind and name.
#pragma once

#include "core/policy_list.h"

namespace batchflow {

const PolicyList& policy_list();

}  // namespace batchflow
