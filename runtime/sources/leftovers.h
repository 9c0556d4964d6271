// What is written beside its place, before it gets its name, by processes that were killed then.
#pragma once

#include <filesystem>
#include <string>

namespace batchflow {

// Removes files and folders of `folder` whose names are `prefix` and the id of a process that is no
// more.
void remove_leftovers(const std::filesystem::path& folder, const std::string& prefix);

}  // namespace batchflow
