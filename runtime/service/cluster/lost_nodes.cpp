#include "runtime/service/cluster/lost_nodes.h"

namespace batchflow::service {
namespace {

// In times that a node may be silent: how long a loss counts, and how long a node that others could
// not reach is kept out.
constexpr int kLostFor = 3;
constexpr int kApartFor = 10;

}  // namespace

std::size_t LostNodes::lost(const std::string& name) {
  const auto now = Clock::now();
  gone_[name] = now;
  std::erase_if(gone_, [&](const auto& one) { return now - one.second > kLostFor * silence_; });
  return gone_.size();
}

void LostNodes::keep_out(const std::string& name, const std::string& why) {
  apart_[name] = {Clock::now() + kApartFor * silence_, why};
}

std::string LostNodes::objection(const std::string& name) {
  const auto found = apart_.find(name);
  if (found == apart_.end()) return {};
  if (Clock::now() < found->second.until) return found->second.why;
  apart_.erase(found);
  return {};
}

}  // namespace batchflow::service
