// What to write in name_or_path of a name that no configuration has.
#pragma once

#include <string>
#include <vector>

namespace batchflow::input {

// Names the nearest of `names`, or all of them; without any, the folders that were searched. FOLDER
// is `pipelines`, `clusters` and so on.
std::string what_to_write(const std::string& name_or_path, const std::vector<std::string>& names,
                          const std::string& folder);

}  // namespace batchflow::input
