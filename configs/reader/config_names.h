// What is said of a name that no configuration has, wherever one is named.
#pragma once

#include <string>
#include <vector>

namespace batchflow {

// The nearest of `names`, or all of them; where there are none, where they were looked for. FOLDER
// is `pipelines`, `clusters` and so on.
std::string what_to_write(const std::string& place, const std::vector<std::string>& names,
                          const std::string& folder);

}  // namespace batchflow
