#include "runtime/step/open_steps.h"

namespace batchflow::step {

std::shared_ptr<StepPlugin> OpenSteps::find(const std::string& key, const Open& open) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const auto& one) { return one.second.expired(); });
    const auto found = open_.find(key);
    if (found != open_.end())
      if (std::shared_ptr<StepPlugin> known = found->second.lock()) return known;
  }
  std::shared_ptr<StepPlugin> made = open();  // which may take long
  const std::lock_guard lock(mutex_);
  open_[key] = made;
  return made;
}

}  // namespace batchflow::step
