// The engine's configuration, read from a configuration tree.
#pragma once

#include "core/engine/engine_config.h"
#include "programs/config/config.h"

namespace batchflow::config {

// What `section` does not say is as in its preset.
engine::EngineConfig read_engine_config(ConfigSection& section);

}  // namespace batchflow::config
