// Steps that are plugins, as a pipeline names them: found, asked what they make, and checked.
#pragma once

#include <memory>
#include <optional>

#include "core/config.h"
#include "runtime/prepare/steps.h"

namespace batchflow {

// The plugin of `section`, for what the steps before it make. `written` is that section with all
// its keys, since plugins have their own. Throws ConfigError.
std::shared_ptr<StepPlugin> open_plugin(ConfigSection& section, const ConfigNode& written,
                                        const Field& input, const StepSettings& settings);

// What it does to pictures, if it makes pictures: then any step of pictures may follow it.
std::optional<PictureByPlugin> picture_by(ConfigSection& section,
                                          const std::shared_ptr<StepPlugin>& plugin);

// Whatever else it makes must be able to be a field, of which its processes have room for one.
void check_output(ConfigSection& section, const StepPlugin& plugin);

}  // namespace batchflow
