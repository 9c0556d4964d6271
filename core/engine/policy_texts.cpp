#include "core/engine/policy_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "core/base/config_value.h"
#include "core/base/names.h"

namespace batchflow::engine {
namespace {

constexpr std::string_view kKindNames[kPolicyKinds] = {
    "allocation", "eviction", "selection", "dispatch", "scaling", "rehearsal", "mixture"};
constexpr std::string_view kOneEviction = "eviction.";
constexpr std::string_view kEvictionKinds[kEvictions] = {
    "eviction.encoded", "eviction.decoded", "eviction.prepared", "eviction.drive", "eviction.gpu"};
static_assert(static_cast<std::size_t>(Form::encoded) == 0 &&
              static_cast<std::size_t>(Form::prepared) == 2);

}  // namespace

std::string_view policy_kind_name(PolicyKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::string policy_kinds() {
  return fmt::format("{}", fmt::join(kKindNames, ", "));
}

PolicyKind policy_kind(std::string_view name) {
  for (std::size_t i = 0; i < kPolicyKinds; ++i) {
    if (kKindNames[i] == name) return static_cast<PolicyKind>(i);
  }
  const std::vector<std::string_view> names(std::begin(kKindNames), std::end(kKindNames));
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown kind of policy '{}'; {}the kinds are {}", name,
                                nearest.empty() ? "" : fmt::format("write '{}'; ", nearest),
                                policy_kinds()));
}

std::string_view eviction_kind(std::size_t eviction) {
  return kEvictionKinds[eviction];
}

std::string_view eviction_name(std::size_t eviction) {
  return eviction_kind(eviction).substr(kOneEviction.size());
}

std::optional<KindAndText> find_kind(std::string_view policy) {
  // A colon begins the parameters, in which an equals sign names no kind.
  const std::size_t mark = policy.find_first_of("=:");
  if (mark == std::string_view::npos || policy[mark] != '=') return std::nullopt;
  return KindAndText{policy.substr(0, mark), policy.substr(mark + 1)};
}

KindAndText split_policy(std::string_view policy) {
  const std::optional<KindAndText> found = find_kind(policy);
  if (found) return *found;
  throw ConfigError(
      fmt::format("'{}' names no kind of policy; write kind=name, as eviction=lru, or preset=name",
                  policy.substr(0, 60)));
}

PolicyName policy_name(std::string_view name) {
  constexpr auto kEncoded = static_cast<std::size_t>(Form::encoded);
  constexpr auto kDecoded = static_cast<std::size_t>(Form::decoded);
  if (name == "eviction") return {PolicyKind::eviction, {kEncoded, kDecoded, kOnDrives, kOnGpus}};
  if (!name.starts_with(kOneEviction)) return {policy_kind(name), {}};
  for (std::size_t one = 0; one < kEvictions; ++one) {
    if (name.substr(kOneEviction.size()) == eviction_name(one))
      return {PolicyKind::eviction, {one}};
  }
  throw ConfigError(
      fmt::format("'{}' is no kind of policy; write eviction.encoded, eviction.decoded, "
                  "eviction.prepared, eviction.drive or eviction.gpu",
                  name));
}

std::string PolicyScope::text() const {
  return only ? fmt::format("{}[{}]", name, *only) : std::string(name);
}

PolicyScope policy_scope(std::string_view text) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) return {text, std::nullopt};
  const std::string_view number = text.substr(open + 1);
  std::uint32_t only = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), only);
  if (error != std::errc() || std::string_view(end, number.data() + number.size()) != "]")
    throw ConfigError(
        fmt::format("'{}' names no share or stream; write selection[2]", text.substr(0, 60)));
  return {text.substr(0, open), only};
}

void set_policy(PolicyTexts& texts, std::string_view name, const std::string& text) {
  const PolicyName named = policy_name(name);
  if (named.kind == PolicyKind::rehearsal)
    throw ConfigError(
        "a buffer has the rehearsal policy that its job asks for (in Python: rehearsal=), so none "
        "is set here");
  if (named.kind == PolicyKind::mixture)
    throw ConfigError(
        "a mixture has the policy that its job asks for (in Python: weights_policy=), so none is "
        "set "
        "here");
  for (const std::size_t one : named.evictions) texts.eviction[one] = text;
  if (named.kind == PolicyKind::eviction) return;
  visit_policies(texts, [&](std::string_view one, std::string& at) {
    if (one == name) at = text;
  });
}

}  // namespace batchflow::engine
