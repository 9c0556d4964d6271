// Data for scenarios that have none: as many samples of as many bytes, drawn by chance, the same
// each time.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "configs/reader/scenario.h"

namespace batchflow::ctl {

// A folder in `folder` for each data set of the scenario, with a .npy file of a row of bytes a
// sample; what is there already and has that size stays. Answers where each is, by its name. Throws
// ConfigError, with numbers, for more than `most` bytes in all.
std::map<std::string, std::string> make_data(const Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most);

}  // namespace batchflow::ctl
