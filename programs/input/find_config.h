// Finds configurations by name: scenarios, clusters, pipelines and so on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace batchflow::input {

// `name_or_path` is a name (`laptop`: searched as configs/FOLDER/laptop.yaml) or the path of a
// file; throws ConfigError naming the nearest name. It searches $BATCHFLOW_CONFIGS, the folder of
// `near` and its neighbours, and the configurations installed with the program.
std::string find_config(const std::string& name_or_path, const std::string& folder,
                        const std::string& near = "");
// A path as a file means it: from the folder of `near`, if there is such a file, and else as it is.
std::string beside(const std::string& path, const std::string& near);
// The file that such a name stands for; none: there is no such file.
std::optional<std::string> config_named(const std::string& name, const std::string& folder,
                                        const std::string& near = "");
// The files in FOLDER, by the names under which find_config() finds them.
std::map<std::string, std::string> list_configs(const std::string& folder,
                                                const std::string& near = "");

// What to write instead of a name that no configuration has: the nearest of `names`, or all of
// them; without any, the folders that were searched. FOLDER is `pipelines`, `clusters` and so on.
std::string what_to_write(const std::string& name_or_path, const std::vector<std::string>& names,
                          const std::string& folder);

}  // namespace batchflow::input
