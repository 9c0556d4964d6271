// Data for a scenario whose datasets are nowhere: as many samples of as many bytes as the scenario
// says. `batchflowctl run --make-data` calls it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "programs/input/scenario.h"

namespace batchflow::ctl {

// Makes a folder in `folder` for each dataset of the scenario, with a .npy file that has a row of
// bytes for each sample. The bytes are random, and the same each time. A file that is there already
// and has the same size stays. Answers the path of each dataset, by its name. Throws ConfigError
// where all would take more than `most` bytes.
std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most);

}  // namespace batchflow::ctl
