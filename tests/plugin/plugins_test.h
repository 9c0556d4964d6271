// The plugins that the tests build (tests/plugin/plugins).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "policies/plugin/load.h"

namespace batchflow::test {

inline std::filesystem::path plugin_path(const std::string& name) {
  return std::filesystem::path(BATCHFLOW_TEST_PLUGINS) / (name + ".so");
}
inline std::shared_ptr<const plugin::PluginFile> plugin_file(const std::string& name) {
  return std::make_shared<const plugin::PluginFile>(plugin_path(name));
}

}  // namespace batchflow::test
