// Policies of plugins, as the engine sees policies: objects of its own classes that a plugin made,
// or adaptors between those classes and the tables of the C interface. An answer against the rules
// of that interface ends the use of the instance: from then on the adaptor answers as if it had
// nothing to say, which the engine bears.
#pragma once

#include "core/engine/policy_list.h"

namespace batchflow::plugin {

// How the engine gets a policy of which PolicyEntry::plugin is a HostedPolicy.
decltype(engine::PolicyEntry::make) adaptor_of(engine::PolicyKind kind);

}  // namespace batchflow::plugin
