// What `policy list` and `policy show` print, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/policy_list.h"

namespace batchflow {

// All policies by kind, a line each.
std::string describe_policies(const PolicyList& list);

// The policies of that name, of every kind; `kind=name` asks for one kind.
// Throws ConfigError naming the nearest when there is none.
std::vector<const PolicyEntry*> policies_named(const PolicyList& list, std::string_view name);

// Help and parameters of one.
std::string describe_policy(const PolicyEntry& entry);

std::string_view first_line(std::string_view help);

}  // namespace batchflow
