// Steps that are plugins, as a pipeline names them: found, asked what they make, and checked.
#pragma once

#include <memory>
#include <optional>

#include "programs/config/config.h"
#include "runtime/prepare/steps.h"

namespace batchflow::prepare {

// The plugin of `section`, for what the steps before it make. `written` is that section with all
// its keys, since plugins have their own. Throws ConfigError.
std::shared_ptr<step::StepPlugin> open_plugin(config::ConfigSection& section,
                                              const config::ConfigNode& written,
                                              const batch::Field& input,
                                              const step::StepSettings& settings);

// What it does to pictures, if it makes pictures: then any step of pictures may follow it.
std::optional<PictureByPlugin> picture_by(config::ConfigSection& section,
                                          const std::shared_ptr<step::StepPlugin>& plugin);

// Whatever else it makes must be able to be a field, of which its processes have room for one.
void check_output(config::ConfigSection& section, const step::StepPlugin& plugin);

}  // namespace batchflow::prepare
