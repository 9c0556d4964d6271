#include "policies/apart/described.h"

#include "core/base/config_value.h"
#include "policies/apart/message.h"
#include "policies/apart/proxies.h"
#include "policies/plugin/names.h"

namespace batchflow::apart {
namespace {

constexpr std::size_t kPoliciesMost = 64;
constexpr std::size_t kParametersMost = 256;

// Of an entry, as flags.
constexpr bool engine::PolicyEntry::*kFlags[] = {
    &engine::PolicyEntry::clairvoyant,        &engine::PolicyEntry::next_uses,
    &engine::PolicyEntry::reads_early,        &engine::PolicyEntry::ignores_hits,
    &engine::PolicyEntry::whole_without_hits, &engine::PolicyEntry::simulated_only,
    &engine::PolicyEntry::may_starve};

// The fields of a preset by their types, for reading and for writing.
template <class Preset, class Text, class Flag, class Number>
void each_field(Preset& preset, Text text, Flag flag, Number number) {
  for (auto* const one :
       {&preset.name, &preset.help, &preset.allocation, &preset.eviction[0], &preset.eviction[1],
        &preset.eviction[2], &preset.selection, &preset.dispatch, &preset.scaling})
    text(*one);
  for (auto* const one :
       {&preset.share_streams, &preset.share_nodes, &preset.workers_held_during_reads})
    flag(*one);
  for (auto* const one : {&preset.helper_nodes, &preset.workers_per_rank, &preset.late_after_p99})
    number(*one);
}

}  // namespace

struct Described::Policy {
  Policy(MessageReader& in, std::uint32_t index, Answering& answering, const std::string& known) {
    const auto kind = in.get<std::uint8_t>();
    name = in.text();
    help = in.text();
    from = in.text();
    if (!known.empty()) from = known;
    if (!plugin::is_policy_name(name)) in.fail();
    for (bool engine::PolicyEntry::*const flag : kFlags) entry.*flag = in.get<std::uint8_t>() != 0;
    const auto count = in.get<std::uint32_t>();
    if (kind >= engine::kPolicyKinds || count > kParametersMost) in.fail();
    for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
      Parameter& one = parameters.emplace_back();
      for (std::string_view* const text : {&one.name, &one.default_value, &one.help})
        *text = *texts.emplace_back(std::make_unique<std::string>(in.text()));
      const auto type = in.get<std::uint8_t>();
      if (type > static_cast<std::uint8_t>(Parameter::Type::text)) in.fail();
      one.type = static_cast<Parameter::Type>(type);
      one.least = in.get<double>();
      one.greatest = in.get<double>();
    }
    if (!in.ok()) return;
    for (const Parameter& one : parameters) {
      Parameters check(std::span(&one, 1));
      check.set(one.name, one.default_value);
    }
    entry.name = name;
    entry.help = help;
    entry.from = from;
    entry.parameters = parameters;
    entry.make = proxy_of(static_cast<engine::PolicyKind>(kind));
    source = {&answering, index};
    entry.plugin = &source;
  }

  std::string name, help, from;
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<Parameter> parameters;
  engine::PolicyEntry entry{{}, {}, {}};
  ProxySource source;
};

struct Described::Named {
  explicit Named(MessageReader& in) {
    each_field(
        preset,
        [&](std::string_view& one) {
          one = *texts.emplace_back(std::make_unique<std::string>(in.text()));
        },
        [&](bool& one) { one = in.get<std::uint8_t>() != 0; },
        [&](std::uint32_t& one) { one = in.get<std::uint32_t>(); });
  }
  std::vector<std::unique_ptr<std::string>> texts;
  engine::Preset preset{};
};

Described::Described(std::span<const std::byte> description, Answering& answering,
                     std::string from) {
  MessageReader in(description);
  const auto policies = in.get<std::uint32_t>();
  const auto presets = in.get<std::uint32_t>();
  if (policies > kPoliciesMost || presets > kPoliciesMost) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < policies; ++i)
    policies_.push_back(std::make_unique<Policy>(in, i, answering, from));
  for (std::uint32_t i = 0; in.ok() && i < presets; ++i)
    presets_.push_back(std::make_unique<Named>(in));
  if (!in.ok() || !in.at_end())
    throw ConfigError("what is said of the policies of a plugin cannot be read");
}

Described::~Described() = default;

std::vector<const engine::PolicyEntry*> Described::policies() const {
  std::vector<const engine::PolicyEntry*> entries;
  for (const auto& one : policies_) entries.push_back(&one->entry);
  return entries;
}

std::vector<const engine::Preset*> Described::presets() const {
  std::vector<const engine::Preset*> all;
  for (const auto& one : presets_) all.push_back(&one->preset);
  return all;
}

std::vector<std::byte> describe(std::span<const engine::PolicyEntry* const> policies,
                                std::span<const engine::Preset* const> presets) {
  std::vector<std::byte> bytes;
  MessageWriter out(bytes);
  out.put(static_cast<std::uint32_t>(policies.size()));
  out.put(static_cast<std::uint32_t>(presets.size()));
  for (const engine::PolicyEntry* entry : policies) {
    out.put(static_cast<std::uint8_t>(entry->kind()));
    for (const std::string_view text : {entry->name, entry->help, entry->from}) out.text(text);
    for (bool engine::PolicyEntry::*const flag : kFlags)
      out.put(static_cast<std::uint8_t>(entry->*flag ? 1 : 0));
    out.put(static_cast<std::uint32_t>(entry->parameters.size()));
    for (const Parameter& one : entry->parameters) {
      for (const std::string_view text : {one.name, one.default_value, one.help}) out.text(text);
      out.put(static_cast<std::uint8_t>(one.type));
      out.put(one.least);
      out.put(one.greatest);
    }
  }
  for (const engine::Preset* preset : presets) {
    each_field(
        *preset, [&](std::string_view one) { out.text(one); },
        [&](bool one) { out.put(static_cast<std::uint8_t>(one ? 1 : 0)); },
        [&](std::uint32_t one) { out.put(one); });
  }
  return bytes;
}

}  // namespace batchflow::apart
