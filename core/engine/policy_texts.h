// Which policies an engine uses, each as text (`minio`, `bounded-lag:blocks=4`), and under which
// names: one for each kind of policy, but for eviction one for each form (`eviction.prepared`), one
// for drives and one for GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::engine {

enum class PolicyKind : std::uint8_t {
  allocation,
  eviction,
  selection,
  dispatch,
  scaling,
  // Not in PolicyTexts: each buffer has the policy that its first job asked for, and each mixture
  // the policy that its job asked for.
  rehearsal,
  mixture
};
inline constexpr std::size_t kPolicyKinds = 7;
constexpr bool is_asked_for_by_jobs(PolicyKind kind) {
  return kind == PolicyKind::rehearsal || kind == PolicyKind::mixture;
}
std::string_view policy_kind_name(PolicyKind kind);
std::string policy_kinds();  // their names, for people: `allocation, eviction, ...`
PolicyKind policy_kind(std::string_view name);  // throws ConfigError naming the nearest kind

// Evictions: those of the forms in memory, and behind them those of samples on drives, and of
// decoded samples in the memory of GPUs.
inline constexpr std::size_t kEvictions = kForms + 2;
inline constexpr std::size_t kOnDrives = kForms;
inline constexpr std::size_t kOnGpus = kForms + 1;
std::string_view eviction_name(std::size_t eviction);  // `encoded`, ..., `drive`, `gpu`
std::string_view eviction_kind(std::size_t eviction);  // `eviction.encoded`, ...

struct PolicyTexts {
  std::string allocation;
  std::array<std::string, kEvictions> eviction;
  std::string selection;  // of relaxed jobs; a strict order leaves no choice
  std::string dispatch;
  std::string scaling;
  friend bool operator==(const PolicyTexts&, const PolicyTexts&) = default;
};

// Calls visit(name, text) for each.
template <class Texts, class Visit>
void visit_policies(Texts& texts, Visit visit) {
  visit(policy_kind_name(PolicyKind::allocation), texts.allocation);
  for (std::size_t i = 0; i < kEvictions; ++i) visit(eviction_kind(i), texts.eviction[i]);
  visit(policy_kind_name(PolicyKind::selection), texts.selection);
  visit(policy_kind_name(PolicyKind::dispatch), texts.dispatch);
  visit(policy_kind_name(PolicyKind::scaling), texts.scaling);
}

// The two sides of `kind=name[:parameter=value...]`.
struct KindAndText {
  std::string_view kind;
  std::string_view text;
};
std::optional<KindAndText> find_kind(std::string_view policy);  // nothing: it names no kind
KindAndText split_policy(std::string_view policy);  // throws ConfigError where it names no kind

// What a name stands for. `eviction` alone stands for the policies of samples, wherever they are
// kept.
struct PolicyName {
  PolicyKind kind;
  std::vector<std::size_t> evictions;  // of those
};
PolicyName policy_name(std::string_view name);  // throws ConfigError
// Names the policy that one share or stream has for itself: `eviction.encoded[3]` of share 3,
// `selection[2]` of stream 2. Without a number, it names the policy of all others.
struct PolicyScope {
  std::string_view name;
  std::optional<std::uint32_t> only;
  std::string text() const;
  friend bool operator==(const PolicyScope&, const PolicyScope&) = default;
};
PolicyScope policy_scope(std::string_view text);  // throws ConfigError
// Throws ConfigError where there is no such name.
void set_policy(PolicyTexts& texts, std::string_view name, const std::string& text);

}  // namespace batchflow::engine
