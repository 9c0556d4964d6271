// Steps that are plugins, as a pipeline names them: finds them, asks what they make, and checks it.
#pragma once

#include <memory>
#include <optional>

#include "programs/config/config.h"
#include "runtime/prepare/steps.h"

namespace batchflow::prepare {

// The plugin of `section`, for what the steps before it make. `written` is that section with all
// its keys, because plugins have keys of their own. Throws ConfigError.
std::shared_ptr<step::StepPlugin> open_plugin(config::ConfigSection& section,
                                              const config::ConfigNode& written,
                                              const batch::Field& input,
                                              const step::StepSettings& settings);

// What the plugin does to pictures, if it makes pictures: then any step for pictures may follow it.
std::optional<PictureByPlugin> picture_by(config::ConfigSection& section,
                                          const std::shared_ptr<step::StepPlugin>& plugin);

// Checks that anything else it makes can be a field, and that its processes have room for one
// sample.
void check_output(config::ConfigSection& section, const step::StepPlugin& plugin);

}  // namespace batchflow::prepare
