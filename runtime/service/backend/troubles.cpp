#include "runtime/service/backend/troubles.h"

#include <utility>

#include "fmt/format.h"

namespace batchflow::service {
namespace {

constexpr std::chrono::minutes kSpan{1};
constexpr std::uint32_t kSaidMost = 100;  // in each
constexpr const char* kKind = "sample";

}  // namespace

void Troubles::note(PipelineId pipeline, std::string what) {
  std::string& last = last_[pipeline.value];
  const bool again = last == what;
  last = std::move(what);
  const auto now = Clock::now();
  if (now - since_ > kSpan) {
    if (unsaid_ > 0 && say_)
      say_(
          {fmt::format("and {} more such lines were left out", unsaid_), LogLevel::warning, kKind});
    since_ = now;
    said_ = 0;
    unsaid_ = 0;
  }
  if (again) return;
  if (said_ >= kSaidMost) {
    ++unsaid_;
    return;
  }
  ++said_;
  if (say_) say_({last, LogLevel::warning, kKind});
}

std::string_view Troubles::last(PipelineId pipeline) const {
  const auto found = last_.find(pipeline.value);
  return found == last_.end() ? std::string_view() : found->second;
}

}  // namespace batchflow::service
