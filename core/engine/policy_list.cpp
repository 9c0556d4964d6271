#include "core/engine/policy_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/config_value.h"

namespace batchflow::engine {
namespace {

// Cuts `text` at the first `mark`: returns what stands before it, and leaves what follows.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return head;
}

void set_parameter(PolicyChoice& choice, std::string_view assignment,
                   std::vector<std::string_view>& seen) {
  std::string_view value = assignment;
  const std::string_view name = take_until(value, '=');
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("policy '{}': {}", choice.entry->name, why));
  };
  if (assignment.find('=') == std::string_view::npos || name.empty()) {
    refuse(fmt::format("'{}' sets nothing; write parameter=value", assignment));
  }
  for (std::string_view earlier : seen) {
    if (earlier == name) refuse(fmt::format("parameter '{}' is set twice; keep one", name));
  }
  seen.push_back(name);
  try {
    choice.parameters.set(name, value);
  } catch (const ConfigError& error) {
    refuse(error.what());
  }
}

}  // namespace

std::string PolicyChoice::text() const {
  std::string result(entry->name);
  if (!entry->from.empty()) result += fmt::format("@{}", entry->from);
  for (const Parameter& parameter : parameters.declared()) {
    const std::string& value = parameters.value(parameter.name);
    if (value != parameter.default_value) result += fmt::format(":{}={}", parameter.name, value);
  }
  return result;
}

void hand_over(const PolicyChoice& before, const Policy& from, const PolicyChoice& after,
               Policy& to) {
  if (before.entry->name != after.entry->name) return;
  std::vector<std::byte> room(kSavedMost);
  const std::size_t bytes = from.save(room);
  if (bytes > 0 && bytes <= room.size()) to.restore(std::span(room).first(bytes));
}

std::vector<const PolicyEntry*> PolicyList::of_kind(PolicyKind kind) const {
  std::vector<const PolicyEntry*> result;
  for (const PolicyEntry* entry : entries_) {
    if (entry->kind() == kind) result.push_back(entry);
  }
  return result;
}

void PolicyList::add(const PolicyEntry& entry) {
  for (const PolicyEntry* one : of_kind(entry.kind())) {
    if (one->name == entry.name && one->from.empty()) {
      throw ConfigError(fmt::format("there is a built-in {} policy '{}'; give yours another name",
                                    policy_kind_name(entry.kind()), entry.name));
    }
  }
  entries_.push_back(&entry);
}

const PolicyEntry& PolicyList::find(PolicyKind kind, std::string_view text) const {
  std::string_view from = text;
  const std::string_view name = take_until(from, '@');
  const bool any = text.find('@') == std::string_view::npos;
  const std::vector<const PolicyEntry*> entries = of_kind(kind);
  std::vector<std::string_view> names;
  std::vector<std::string> others;
  for (auto at = entries.rbegin(); at != entries.rend(); ++at) {
    const PolicyEntry& entry = **at;
    if (entry.name != name) continue;
    if (any || (!from.empty() && entry.from == from)) return entry;
    others.push_back(entry.from.empty() ? "built in" : fmt::format("{}@{}", name, entry.from));
  }
  if (!any) {
    throw ConfigError(
        fmt::format("{} policy '{}' is of a plugin that is not loaded; give its file by --plugin{}",
                    policy_kind_name(kind), text,
                    others.empty() ? "" : fmt::format(" (there is {})", fmt::join(others, ", "))));
  }
  for (const PolicyEntry* entry : entries) {
    if (names.empty() || names.back() != entry->name) names.push_back(entry->name);
  }
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format(
      "unknown {} policy '{}'; {}the policies are {}", policy_kind_name(kind), name,
      nearest.empty() ? "" : fmt::format("write '{}'; ", nearest), fmt::join(names, ", ")));
}

PolicyChoice PolicyList::choose(PolicyKind kind, std::string_view text) const {
  if (text.ends_with(':'))
    throw ConfigError(fmt::format("policy '{}': nothing behind ':'; write parameter=value", text));
  const PolicyEntry& entry = find(kind, take_until(text, ':'));
  PolicyChoice choice{&entry, Parameters(entry.parameters)};
  std::vector<std::string_view> seen;
  while (!text.empty()) set_parameter(choice, take_until(text, ':'), seen);
  return choice;
}

std::string PolicyList::exactly(PolicyKind kind, std::string_view text) const {
  std::string_view rest = text;
  const std::string_view name = take_until(rest, ':');
  if (name.find('@') != std::string_view::npos) return std::string(text);
  for (auto at = entries_.rbegin(); at != entries_.rend(); ++at) {
    const PolicyEntry& entry = **at;
    if (entry.kind() != kind || entry.name != name || entry.from.empty()) continue;
    return fmt::format("{}@{}{}", name, entry.from, text.substr(name.size()));
  }
  return std::string(text);
}

PolicyChoice PolicyList::choose(std::string_view text) const {
  const std::size_t mark = text.find_first_of("=:");
  if (mark == std::string_view::npos || text[mark] != '=') {
    throw ConfigError(
        fmt::format("'{}' names no kind of policy; write kind=name, as eviction=lru", text));
  }
  return choose(policy_kind(text.substr(0, mark)), text.substr(mark + 1));
}

void name_exactly(PolicyTexts& texts, const PolicyList& list) {
  visit_policies(texts, [&](std::string_view kind, std::string& text) {
    text = list.exactly(policy_name(kind).kind, text);
  });
}

}  // namespace batchflow::engine
