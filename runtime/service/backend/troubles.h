// What went wrong with samples and steps, as text: for the log, and for jobs that end because of
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "runtime/service/log/service_log.h"

namespace batchflow::service {

class Troubles {
 public:
  explicit Troubles(Say say) : say_(std::move(say)) {}

  // Says a few lines each minute, and then how many others there were.
  void note(PipelineId pipeline, std::string what);
  // The last one of this pipeline; empty if there was none.
  std::string_view last(PipelineId pipeline) const;

 private:
  using Clock = std::chrono::steady_clock;
  Say say_;
  std::map<std::uint32_t, std::string> last_;  // by pipeline
  Clock::time_point since_{};
  std::uint32_t lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace batchflow::service
