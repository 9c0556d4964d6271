#include "runtime/service/backend/troubles.h"

#include <utility>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

constexpr std::chrono::minutes kSpan{1};
constexpr std::uint32_t kLinesMost = 100;  // in each
constexpr const char* kKind = "sample";

}  // namespace

void Troubles::note(PipelineId pipeline, std::string what) {
  std::string& last = last_[pipeline.value];
  const bool again = last == what;
  last = std::move(what);
  const auto now = Clock::now();
  if (now - since_ > kSpan) {
    if (left_out_ > 0 && say_)
      say_({fmt::format("and {} more such lines were left out", left_out_), LogLevel::warning,
            kKind});
    since_ = now;
    lines_ = 0;
    left_out_ = 0;
  }
  if (again) return;
  if (lines_ >= kLinesMost) {
    ++left_out_;
    return;
  }
  ++lines_;
  if (say_) say_({last, LogLevel::warning, kKind});
}

std::string_view Troubles::last(PipelineId pipeline) const {
  const auto found = last_.find(pipeline.value);
  return found == last_.end() ? std::string_view() : found->second;
}

}  // namespace batchflow::service
