// Removes files that were left behind. A file is written under a temporary name and gets its own
// name when it is whole; if the process is killed meanwhile, the temporary file stays.
#pragma once

#include <filesystem>
#include <string>

namespace batchflow::sources {

// Removes files and folders in `folder` with names made of `prefix` and the id of a process that
// has ended.
void remove_leftovers(const std::filesystem::path& folder, const std::string& prefix);

}  // namespace batchflow::sources
