#include "runtime/sources/fields_seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace batchflow::sources {

void FieldsSeen::add(std::string_view name, batch::ElementType type, std::uint64_t elements) {
  auto found = names_.find(name);
  if (found == names_.end()) {
    if (names_.size() == batch::BatchSpec::kFieldsMost)
      problem_ = fmt::format("parts of more than {} names", batch::BatchSpec::kFieldsMost);
    if (!problem_.empty()) return;
    found = names_.emplace(name, Seen{type}).first;
  }
  Seen& seen = found->second;
  if (seen.last == samples_) return;
  if (seen.type != type)
    problem_ = fmt::format("'{}' is {} here and {} there", name, batch::element_name(seen.type),
                           batch::element_name(type));
  seen.last = samples_;
  seen.least = std::min(seen.least, elements);
  seen.most = std::max(seen.most, elements);
  ++seen.samples;
}

batch::BatchSpec FieldsSeen::fields(std::string& problem) const {
  batch::BatchSpec spec;
  for (const auto& [name, seen] : names_) {
    const bool dense = seen.samples == samples_ && seen.least == seen.most && seen.least > 0;
    if (!dense) {
      spec.fields.push_back({name, seen.type, {std::max<std::uint64_t>(seen.most, 1)}, true});
    } else {
      spec.fields.push_back({name, seen.type,
                             seen.most == 1 ? std::vector<std::uint64_t>{} : std::vector{seen.most},
                             false});
    }
  }
  problem = problem_.empty() ? spec.problem() : problem_;
  return problem.empty() ? spec : batch::BatchSpec();
}

}  // namespace batchflow::sources
