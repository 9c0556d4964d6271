// Integer nanoseconds as seconds, for rates and means.
#pragma once

#include "core/base/types.h"

namespace batchflow {

constexpr double seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

}  // namespace batchflow
