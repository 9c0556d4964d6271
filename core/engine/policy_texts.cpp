#include "core/engine/policy_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/config_value.h"
#include "core/base/names.h"

namespace batchflow::engine {
namespace {

constexpr std::string_view kKindNames[kPolicyKinds] = {"allocation", "eviction", "selection",
                                                       "dispatch", "scaling"};
constexpr std::string_view kOfAForm = "eviction.";

}  // namespace

std::string_view policy_kind_name(PolicyKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

PolicyKind policy_kind(std::string_view name) {
  for (std::size_t i = 0; i < kPolicyKinds; ++i) {
    if (kKindNames[i] == name) return static_cast<PolicyKind>(i);
  }
  const std::vector<std::string_view> names(std::begin(kKindNames), std::end(kKindNames));
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown kind of policy '{}'; {}the kinds are {}", name,
                                nearest.empty() ? "" : fmt::format("write '{}'; ", nearest),
                                fmt::join(names, ", ")));
}

PolicyName policy_name(std::string_view name) {
  if (name == "eviction") return {PolicyKind::eviction, {Form::encoded, Form::decoded}};
  if (!name.starts_with(kOfAForm)) return {policy_kind(name), {}};
  for (std::size_t form = 0; form < kForms; ++form) {
    if (name.substr(kOfAForm.size()) == name_of(static_cast<Form>(form)))
      return {PolicyKind::eviction, {static_cast<Form>(form)}};
  }
  throw ConfigError(
      fmt::format("'{}' is no kind of policy; write eviction.encoded, eviction.decoded or "
                  "eviction.prepared",
                  name));
}

void set_policy(PolicyTexts& texts, std::string_view name, const std::string& text) {
  const PolicyName named = policy_name(name);
  for (const Form form : named.forms) texts.eviction[static_cast<std::size_t>(form)] = text;
  if (named.kind == PolicyKind::eviction) return;
  visit_policies(texts, [&](std::string_view one, std::string& at) {
    if (one == name) at = text;
  });
}

}  // namespace batchflow::engine
