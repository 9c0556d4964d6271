// Describes policies, presets and generators for programs (JSON) and for people
// (policies/description.h describes policies for people).
#pragma once

#include <string>

#include "policies/description.h"

namespace batchflow::sim {

std::string policies_json(const policies::Named& named);
std::string generators_json();
std::string describe_generators();

}  // namespace batchflow::sim
