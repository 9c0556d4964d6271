// All policies that this build knows, by kind and name.
#pragma once

#include "core/engine/policy_list.h"

namespace batchflow::policies {

const engine::PolicyList& policy_list();
// What a plugin brings, which stays valid (PolicyList::add). Only while no other thread looks at
// the list.
void add_policy(const engine::PolicyEntry& entry);

}  // namespace batchflow::policies
